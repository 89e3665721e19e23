use std::process::ExitCode;

fn main() -> ExitCode {
    mcpmon::cli::main()
}
