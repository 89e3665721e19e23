//! Tests of the sensor on the running kernel. They need root; `runner` says what happens without it.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of the system"
)]

mod abi;
mod any_address;
mod budget;
mod candidates;
mod closing;
mod cutting;
mod dns;
mod egress;
mod exec;
mod flood;
mod gate;
mod kept;
mod links;
mod membership;
mod multipath;
mod packets;
mod paths;
mod ranges;
mod refuse;
mod reload;
mod reserved;
mod scope;
mod session;
mod sockets;
mod starts;
mod tap;

use std::process::ExitCode;

use anyhow::Result;
use mcpmon_kernel_tests::{
    lab::Lab,
    probe,
    runner::{self, Test},
};

/// The tests in the order in which they run: those that the others depend on come first.
const TESTS: &[Test] = &[
    test(
        "paths::unlisted_addresses_are_reached_and_not_reported",
        paths::unlisted,
    ),
    test(
        "paths::refused_by_address_and_port",
        paths::refused_by_address_and_port,
    ),
    test(
        "paths::refused_by_range_and_port",
        paths::refused_by_range_and_port,
    ),
    test("paths::refused_by_address", paths::refused_by_address),
    test("paths::refused_by_range", paths::refused_by_range),
    test(
        "paths::refused_in_namespaces_of_their_own",
        paths::refused_in_namespaces,
    ),
    test(
        "paths::watched_addresses_are_reached_and_reported",
        paths::watched,
    ),
    test(
        "any_address::reaches_a_refused_loopback",
        any_address::loopback_refused,
    ),
    test(
        "any_address::reaches_a_refused_ipv6_loopback",
        any_address::loopback6_refused,
    ),
    test(
        "any_address::reaches_a_refused_bound_address",
        any_address::bound_address_refused,
    ),
    test(
        "any_address::reaches_no_refused_address_of_a_device",
        any_address::device_address_not_reached,
    ),
    test(
        "any_address::reaches_no_refused_address_of_a_named_device",
        any_address::named_device_not_reached,
    ),
    test(
        "ranges::hold_from_their_first_to_their_last_address",
        ranges::edges,
    ),
    test("ranges::hold_for_their_ports", ranges::ports),
    test(
        "ranges::a_watched_address_hides_no_refused_range",
        ranges::watched_inside_refused,
    ),
    test(
        "ranges::a_refused_address_in_a_watched_range",
        ranges::refused_inside_watched,
    ),
    test("ranges::ten_thousand_entries", ranges::many_entries),
    test("reload::leaves_no_gap_under_load", reload::no_gap_under_load),
    test(
        "scope::agents_and_their_relatives_are_refused",
        scope::agents_and_relatives,
    ),
    test("scope::others_are_not", scope::everyone_else),
    test("scope::holds_in_namespaces_an_agent_makes", scope::namespaces),
    test("scope::programs_become_agents_by_their_name", scope::named_agents),
    test("scope::ends_with_the_process", scope::reused_number),
    test("egress::only_what_is_allowed", egress::allowed_only),
    test("egress::all_but_what_is_refused", egress::all_but),
    test("egress::each_server_has_its_own_list", egress::each_its_own),
    test(
        "egress::a_server_inside_another_is_held_to_both_lists",
        egress::both,
    ),
    test("egress::of_a_server_being_stopped", egress::doomed),
    test(
        "egress::processes_not_judged_yet_are_held_to_all_lists",
        egress::pending,
    ),
    test(
        "egress::who_is_not_judged_is_let_go_when_the_daemon_is_silent",
        egress::pending_in_silence,
    ),
    test(
        "egress::without_lists_nobody_is_held",
        egress::pending_without_lists,
    ),
    test("candidates::are_known_by_their_names", candidates::by_name),
    test(
        "candidates::that_are_not_stopped_are_restricted",
        candidates::restricted_only,
    ),
    test(
        "candidates::exist_only_with_an_egress_list",
        candidates::without_lists,
    ),
    test(
        "candidates::are_refused_until_they_are_judged",
        candidates::refused_until_judged,
    ),
    test(
        "egress::connections_of_servers_are_reported",
        egress::servers_are_reported,
    ),
    test("session::models_are_refused_to_it_alone", session::refused),
    test("session::models_are_reported_of_it_alone", session::reported),
    test(
        "session::models_are_let_go_when_the_daemon_is_silent",
        session::in_silence,
    ),
    test(
        "session::processes_not_judged_yet_are_held_to_its_list",
        session::pending,
    ),
    test(
        "egress::connected_datagrams_are_judged_by_the_address_of_their_socket",
        egress::connected_datagrams,
    ),
    test(
        "sockets::of_protocols_that_nothing_judges_are_refused",
        sockets::unjudged,
    ),
    test("sockets::of_other_protocols_are_not", sockets::judged),
    test(
        "packets::by_way_of_a_refused_host_are_dropped",
        packets::routing_header,
    ),
    test(
        "packets::of_connections_that_were_there_are_dropped",
        packets::established,
    ),
    test(
        "packets::on_passed_connections_are_judged_by_who_sends",
        packets::passed_connections,
    ),
    test(
        "packets::to_refused_clients_are_dropped",
        packets::refused_clients,
    ),
    test(
        "packets::to_clients_of_a_server_without_egress_pass",
        packets::answers_to_clients,
    ),
    test(
        "packets::of_a_socket_that_listened_and_connected_are_no_answers",
        packets::forged_answers,
    ),
    test(
        "packets::of_raw_sockets_are_judged_by_what_holds_now",
        packets::raw_sockets,
    ),
    test(
        "packets::of_the_kernels_own_sockets_are_not_judged_by_who_calls",
        packets::kernel_sockets,
    ),
    test(
        "packets::of_the_self_test_are_judged_without_rules",
        packets::probes,
    ),
    test(
        "multipath::announced_addresses_are_judged_for_their_owner",
        multipath::announced_addresses,
    ),
    test("closing::streams_are_told_with_their_bytes", closing::streams),
    test("closing::so_is_what_nobody_answers_or_counts", closing::others),
    test("closing::connections_of_others_are_not", closing::not_told),
    test("cutting::is_possible", cutting::possible),
    test("cutting::ends_connections_of_all_namespaces", cutting::ended),
    test(
        "membership::is_kept_when_no_memory_is_left",
        membership::under_pressure,
    ),
    test("exec::of_a_plain_file", exec::plain_file),
    test("exec::of_a_hard_link", exec::hard_link),
    test("exec::of_a_script", exec::script),
    test("exec::of_a_script_by_env", exec::script_by_env),
    test("exec::of_an_open_file", exec::open_file),
    test("exec::of_a_deleted_file", exec::deleted_file),
    test("exec::of_an_anonymous_file", exec::anonymous_file),
    test("exec::by_a_second_thread", exec::second_thread),
    test("exec::with_long_arguments", exec::long_arguments),
    test("exec::that_fails_leaves_no_record", exec::failed_exec),
    test("exec::in_a_cgroup", exec::in_a_cgroup),
    test("exec::ends_are_recorded_once", exec::ends),
    test("exec::forks_of_agents_are_recorded", exec::agents_forks),
    test(
        "refuse::ends_a_program_before_its_first_instruction",
        refuse::no_output,
    ),
    test(
        "gate::stops_programs_before_their_first_instruction",
        gate::programs,
    ),
    test("gate::stops_nothing_in_silence", gate::silence),
    test(
        "gate::stops_interpreters_of_gated_scripts_below_agents",
        gate::interpreters,
    ),
    test("gate::stops_what_is_executed_by_descriptor", gate::descriptors),
    test("gate::who_resumes_a_server_is_told", gate::resumed),
    test("starts::are_checked_where_the_canary_says_so", starts::proof),
    test("starts::of_changed_programs_are_refused", starts::digests),
    test(
        "flood::refusals_are_exact_and_losses_known",
        flood::denials_exact_losses_counted,
    ),
    test("dns::answers_to_questions_are_seen", dns::seen),
    test("dns::other_names_are_not_looked_at", dns::other_names),
    test("dns::what_nobody_asked_for_is_no_answer", dns::forged),
    test("dns::answers_of_any_length", dns::lengths),
    test("dns::losses_are_counted", dns::flood),
    test("dns::names_can_be_changed", dns::names_change),
    test("dns::what_a_packet_costs", dns::cost),
    test("budget::kept", budget::kept),
    test("tap::takes_what_goes_through_pipes", tap::pipes),
    test("tap::takes_what_goes_through_sockets", tap::sockets),
    test("tap::counts_what_it_loses", tap::flood),
    test("tap::takes_nothing_of_others", tap::others),
    test("abi::the_object_itself_loads_twice", abi::untouched),
    test("abi::another_version_is_refused", abi::other_version),
    test("abi::another_value_size_is_refused", abi::other_value_size),
    test("reserved::addresses_are_left_to_root", reserved::left_to_root),
    test("reserved::nothing_else_is_refused", reserved::no_more_than_that),
    test(
        "kept::a_start_that_fails_leaves_what_was_there",
        kept::failed_start,
    ),
    test(
        "kept::another_version_holds_until_it_is_replaced",
        kept::other_version,
    ),
    test(
        "links::that_the_kernel_refuses_are_attached_later",
        links::refused,
    ),
    test(
        "links::that_could_not_be_pinned_are_pinned_later",
        links::unpinned,
    ),
];

const fn test(name: &'static str, run: fn(&mut Lab) -> Result<()>) -> Test {
    Test { name, run }
}

fn main() -> ExitCode {
    probe::from_arguments().unwrap_or_else(|| runner::main(TESTS))
}
