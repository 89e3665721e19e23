//! The kernel sense on the running kernel. Needs root; see `runner` for what happens without.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the system"
)]

mod abi;
mod any_address;
mod egress;
mod exec;
mod flood;
mod paths;
mod ranges;
mod refuse;
mod reload;
mod scope;

use std::process::ExitCode;

use mcpmon_kernel_tests::{
    probe,
    runner::{self, Test},
};

/// In the order in which they run: what everything else rests on comes first.
const TESTS: &[Test] = &[
    Test {
        name: "paths::unlisted_addresses_are_reached_and_not_reported",
        run: paths::unlisted,
    },
    Test {
        name: "paths::refused_by_address_and_port",
        run: paths::refused_by_address_and_port,
    },
    Test {
        name: "paths::refused_by_range_and_port",
        run: paths::refused_by_range_and_port,
    },
    Test {
        name: "paths::refused_by_address",
        run: paths::refused_by_address,
    },
    Test {
        name: "paths::refused_by_range",
        run: paths::refused_by_range,
    },
    Test {
        name: "paths::refused_in_namespaces_of_their_own",
        run: paths::refused_in_namespaces,
    },
    Test {
        name: "paths::watched_addresses_are_reached_and_reported",
        run: paths::watched,
    },
    Test {
        name: "any_address::reaches_a_refused_loopback",
        run: any_address::loopback_refused,
    },
    Test {
        name: "any_address::reaches_a_refused_ipv6_loopback",
        run: any_address::loopback6_refused,
    },
    Test {
        name: "any_address::reaches_a_refused_bound_address",
        run: any_address::bound_address_refused,
    },
    Test {
        name: "ranges::hold_from_their_first_to_their_last_address",
        run: ranges::edges,
    },
    Test {
        name: "ranges::hold_for_their_ports",
        run: ranges::ports,
    },
    Test {
        name: "ranges::a_watched_address_hides_no_refused_range",
        run: ranges::watched_inside_refused,
    },
    Test {
        name: "ranges::a_refused_address_in_a_watched_range",
        run: ranges::refused_inside_watched,
    },
    Test {
        name: "ranges::ten_thousand_entries",
        run: ranges::many_entries,
    },
    Test {
        name: "reload::leaves_no_gap_under_load",
        run: reload::no_gap_under_load,
    },
    Test {
        name: "scope::agents_and_their_relatives_are_refused",
        run: scope::agents_and_relatives,
    },
    Test {
        name: "scope::others_are_not",
        run: scope::everyone_else,
    },
    Test {
        name: "scope::holds_in_namespaces_an_agent_makes",
        run: scope::namespaces,
    },
    Test {
        name: "scope::programs_become_agents_by_their_name",
        run: scope::named_agents,
    },
    Test {
        name: "scope::ends_with_the_process",
        run: scope::reused_number,
    },
    Test {
        name: "egress::only_what_is_allowed",
        run: egress::allowed_only,
    },
    Test {
        name: "egress::all_but_what_is_refused",
        run: egress::all_but,
    },
    Test {
        name: "egress::each_server_has_its_own_list",
        run: egress::each_its_own,
    },
    Test {
        name: "egress::processes_not_judged_yet_are_held_to_all_lists",
        run: egress::pending,
    },
    Test {
        name: "egress::without_lists_nobody_is_held",
        run: egress::pending_without_lists,
    },
    Test {
        name: "egress::connections_of_servers_are_reported",
        run: egress::servers_are_reported,
    },
    Test {
        name: "exec::of_a_plain_file",
        run: exec::plain_file,
    },
    Test {
        name: "exec::of_a_hard_link",
        run: exec::hard_link,
    },
    Test {
        name: "exec::of_a_script",
        run: exec::script,
    },
    Test {
        name: "exec::of_a_script_by_env",
        run: exec::script_by_env,
    },
    Test {
        name: "exec::of_an_open_file",
        run: exec::open_file,
    },
    Test {
        name: "exec::of_a_deleted_file",
        run: exec::deleted_file,
    },
    Test {
        name: "exec::of_an_anonymous_file",
        run: exec::anonymous_file,
    },
    Test {
        name: "exec::by_a_second_thread",
        run: exec::second_thread,
    },
    Test {
        name: "exec::with_long_arguments",
        run: exec::long_arguments,
    },
    Test {
        name: "exec::that_fails_leaves_no_record",
        run: exec::failed_exec,
    },
    Test {
        name: "exec::in_a_cgroup",
        run: exec::in_a_cgroup,
    },
    Test {
        name: "exec::ends_are_recorded_once",
        run: exec::ends,
    },
    Test {
        name: "refuse::ends_a_program_before_its_first_instruction",
        run: refuse::no_output,
    },
    Test {
        name: "flood::refusals_are_exact_and_losses_known",
        run: flood::denials_exact_losses_counted,
    },
    Test {
        name: "abi::the_object_itself_loads_twice",
        run: abi::untouched,
    },
    Test {
        name: "abi::another_version_is_refused",
        run: abi::other_version,
    },
    Test {
        name: "abi::another_value_size_is_refused",
        run: abi::other_value_size,
    },
];

fn main() -> ExitCode {
    probe::from_arguments().unwrap_or_else(|| runner::main(TESTS))
}
