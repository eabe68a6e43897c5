//! The server as a standalone process, for tests and benchmarks with real processes.

use std::{io::Write, net::SocketAddr};

use serde_json::Value;

use super::{ModelServer, Reply, Script};

/// Usage text of the program.
pub const USAGE: &str = "\
usage: model-server [--port PORT] [--delay-ms MS] [--first-delay-ms MS] [--lenient] [--unread] [--models FILE] MODE
       --lenient      accept requests that providers would reject
       --unread       neither parse nor record request bodies
       --models FILE  list the models in a JSON file, an array of objects
modes: text [WORDS]   answer every request with this text
       fast COUNT     answer with COUNT deltas, as fast as they are read
       echo           answer with the last user message
       script FILE    answer with the replies in a JSON file (an array or one per line), then with the default reply";

/// Runs until the process is killed. Prints the base URL as the first line of standard output.
///
/// # Errors
/// Returns an error if the arguments or the script are invalid, or if the port is in use.
pub async fn run(arguments: impl IntoIterator<Item = String>) -> Result<(), String> {
    let Parsed { port, script, lenient, unread, models } = parse(arguments)?;
    let server = ModelServer::bind(SocketAddr::from(([127, 0, 0, 1], port)), script)
        .await
        .map_err(|error| format!("could not listen on port {port}: {error}"))?;
    if lenient {
        server.lenient();
    }
    if unread {
        server.ignore_bodies();
    }
    if let Some(models) = models {
        server.lists(models);
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", server.base_url())
        .and_then(|()| out.flush())
        .map_err(|error| format!("could not print the address: {error}"))?;
    drop(out);
    std::future::pending().await
}

struct Parsed {
    port: u16,
    script: Script,
    lenient: bool,
    unread: bool,
    models: Option<Vec<Value>>,
}

fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Parsed, String> {
    let mut arguments = arguments.into_iter();
    let (mut lenient, mut unread) = (false, false);
    let (mut port, mut delay_ms, mut first_delay_ms) = (0, 0, 0);
    let (mut mode, mut models) = (None, None);
    let mut words: Vec<String> = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--port" => port = number(arguments.next())?,
            "--delay-ms" => delay_ms = number(arguments.next())?,
            "--lenient" => lenient = true,
            "--unread" => unread = true,
            "--models" => models = Some(list(&arguments.next().ok_or(USAGE)?)?),
            "--first-delay-ms" => first_delay_ms = number(arguments.next())?,
            _ if mode.is_none() => mode = Some(argument),
            _ => words.push(argument),
        }
    }
    let paced = move |reply: Reply| Reply { delay_ms, first_delay_ms, ..reply };
    let script = match mode.as_deref() {
        Some("text") => {
            let text = if words.is_empty() { "Hello from the model server.".to_owned() } else { words.join(" ") };
            Script::of(move |_| paced(Reply::text(text.clone())))
        }
        Some("fast") => {
            let count = number(words.into_iter().next())?;
            Script::of(move |_| paced(Reply::fast(count)))
        }
        Some("echo") => Script::of(move |request| paced(Reply::text(request.last_user()))),
        Some("script") => {
            let path = words.into_iter().next().ok_or(USAGE)?;
            let text = std::fs::read_to_string(&path).map_err(|error| format!("could not read {path}: {error}"))?;
            Script::from_json(&text).map_err(|error| format!("{path} is not a valid script: {error}"))?
        }
        _ => return Err(USAGE.to_owned()),
    };
    Ok(Parsed { port, script, lenient, unread, models })
}

fn list(path: &str) -> Result<Vec<Value>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("could not read {path}: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("{path} is not a JSON list of models: {error}"))
}

fn number<T: std::str::FromStr>(text: Option<String>) -> Result<T, String> {
    text.and_then(|text| text.parse().ok()).ok_or_else(|| USAGE.to_owned())
}
