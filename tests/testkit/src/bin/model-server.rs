//! A scripted model server. See `agentd_testkit::model_server`.

use agentd_testkit::model_server::command;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    match command::run(std::env::args().skip(1)).await {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            std::process::ExitCode::FAILURE
        }
    }
}
