//! Requests to models as they were sent. They are listed, shown with new parts marked, and compared.

use std::io::IsTerminal as _;

use agentd_core::{
    error::ErrorKind,
    exchange::{Exchange, ExchangePurpose, StoredAnswer, StoredExchanges},
    ids::{SessionId, TurnId},
    visible,
};
use agentd_proto::client::Client;
use agentd_trace::requests::{marked, new_pointers, readable, unified};
use serde_json::{Value, json};

use crate::{
    exit::Exit,
    failure::Failure,
    render::diff::{Room, preview},
    repl::pager,
    report::{self, Table},
    terminal::{GOOD, QUIET, STRONG, TerminalStyle, duration, note, number, paint},
};

/// Logged requests of a session.
pub(super) struct LoggedRequests<'a> {
    pub(super) client: &'a Client,
    pub(super) session: SessionId,
    /// Turn whose requests are selected; `None` for all of the session.
    pub(super) turn: Option<TurnId>,
    pub(super) json: bool,
}

impl LoggedRequests<'_> {
    /// Lists the requests, one per row.
    pub(super) async fn list(&self) -> anyhow::Result<Exit> {
        let StoredExchanges { exchanges, remarks } = self.all().await?;
        remarks.iter().for_each(|remark| note(&visible::line(remark)));
        let output = json!({ "session_id": self.session, "requests": exchanges, "remarks": remarks });
        report::show(self.json, &output, || {
            let rows = exchanges.iter().map(|exchange| row(exchange, self.session));
            Table::of(COLUMN_NAMES, rows).print("no stored requests of this turn")
        })
    }

    /// Shows one request, and marks the parts that the previous request does not contain.
    pub(super) async fn show(&self, number: u64) -> anyhow::Result<Exit> {
        let (exchange, remarks) = self.one(self.log_number(number).await?).await?;
        let before = match exchange.before {
            Some(before) => self.one(before).await.ok().map(|(before, _)| before),
            None => None,
        };
        let body = |exchange: &Exchange| exchange.request.body.clone().unwrap_or_default();
        if self.json {
            let (now, then) = (parsed(&body(&exchange)), before.as_ref().map(|before| parsed(&body(before))));
            let new = then.map(|then| new_pointers(&then, &now));
            let mut output = serde_json::to_value(&exchange)?;
            output["request"]["body"] = now;
            output["new"] = json!(new);
            output["remarks"] = json!(remarks);
            return report::json(&output);
        }
        remarks.iter().for_each(|remark| note(&visible::line(remark)));
        let color = TerminalStyle::detect().out_color;
        let mut lines = heading(&exchange, before.as_ref(), self.session, color);
        let (then, now) = (before.as_ref().map(|before| visible_body(&body(before))), visible_body(&body(&exchange)));
        lines.push(String::new());
        lines.extend(marked(then.as_deref().unwrap_or_default(), &now).iter().map(|line| match line.is_new {
            true => paint(color, GOOD, &format!("+ {}", line.text)),
            false => format!("| {}", line.text),
        }));
        lines.extend(answer(&exchange, color));
        page(lines).await
    }

    /// Shows the difference between two requests.
    pub(super) async fn diff(&self, one: u64, other: u64) -> anyhow::Result<Exit> {
        let numbers = (self.log_number(one).await?, self.log_number(other).await?);
        let text = |exchange: Exchange| readable(&exchange.request.body.unwrap_or_default());
        let (before, now) = (text(self.one(numbers.0).await?.0), text(self.one(numbers.1).await?.0));
        let names = (format!("request {}", numbers.0), format!("request {}", numbers.1));
        let diff = unified((&names.0, &names.1), &before, &now);
        if self.json {
            let output = json!({ "session_id": self.session, "requests": [numbers.0, numbers.1], "diff": diff });
            return report::json(&output);
        }
        if diff.is_empty() {
            note("both requests have the same body");
            return Ok(Exit::Done);
        }
        let look = TerminalStyle::detect();
        page(match look.out_shown {
            true => preview(&diff, Room::of_columns(look.columns()), look.out_color),
            // Programs receive the diff without colours.
            false => visible::lines(&diff).lines().map(str::to_owned).collect(),
        })
        .await
    }

    async fn all(&self) -> Result<StoredExchanges, Failure> {
        let mut logged = self.client.exchanges(&self.session.to_string(), &[]).await?;
        if let Some(turn) = self.turn {
            logged.exchanges.retain(|exchange| exchange.source.turn_id == Some(turn));
        }
        Ok(logged)
    }

    /// Converts a request number to its number in the log. With a turn, numbers count from the turn's first request.
    async fn log_number(&self, number: u64) -> Result<u64, Failure> {
        if self.turn.is_none() {
            return Ok(number);
        }
        let of_turn = self.all().await?.exchanges;
        let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        at.and_then(|at| of_turn.get(at)).map(|exchange| exchange.number).ok_or_else(|| {
            let logged = report::count(of_turn.len(), "request");
            Failure::new(ErrorKind::NotFound, format!("this turn has no request {number}"))
                .hint(format!("{logged} stored for it; `agentctl trace --requests` lists those of all turns"))
        })
    }

    async fn one(&self, number: u64) -> Result<(Exchange, Vec<String>), Failure> {
        let StoredExchanges { mut exchanges, remarks } =
            self.client.exchanges(&self.session.to_string(), &[number]).await?;
        let exchange = exchanges.pop().ok_or_else(|| {
            Failure::new(ErrorKind::NotFound, format!("this session has no request {number}"))
                .hint("`agentctl trace --requests` lists them")
        })?;
        Ok((exchange, remarks))
    }
}

/// Parses a body as JSON; invalid JSON becomes a string.
fn parsed(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|_| body.into())
}

/// Formats a body as lines, with hidden characters escaped.
fn visible_body(body: &str) -> String {
    visible::lines(&readable(body))
}

/// Returns the name of the agent and the purpose of a request.
fn asker(exchange: &Exchange, session: SessionId) -> String {
    let source = &exchange.source;
    let agent = if source.session_id == session { source.agent.clone() } else { format!("subagent {}", source.agent) };
    match source.purpose {
        ExchangePurpose::Turn => agent,
        purpose => format!("{agent}: {}", purpose.as_str()),
    }
}

fn outcome(answer: Option<&StoredAnswer>) -> String {
    let Some(answer) = answer else { return "no end".to_owned() };
    match answer.status {
        Some(status) => format!("{} {status}", answer.outcome.as_str()),
        None => answer.outcome.as_str().to_owned(),
    }
}

fn micros(micros: Option<u64>) -> String {
    micros.map(|micros| duration(micros / 1000)).unwrap_or_default()
}

fn tokens(answer: Option<&StoredAnswer>) -> String {
    let Some(usage) = answer.and_then(|answer| answer.usage) else { return String::new() };
    let cached =
        if usage.cached_tokens > 0 { format!(" ({} cached)", number(usage.cached_tokens)) } else { String::new() };
    format!("{}>{}{cached}", number(usage.prompt_tokens), number(usage.completion_tokens))
}

const COLUMN_NAMES: [&str; 9] = ["REQUEST", "FOR", "STEP", "MODEL", "ANSWER", "TOKENS", "FIRST", "TIME", "SIZE"];

fn row(exchange: &Exchange, session: SessionId) -> [String; 9] {
    let (request, answer) = (&exchange.request, exchange.answer.as_ref());
    let attempt = if request.attempt > 1 { format!(" (attempt {})", request.attempt) } else { String::new() };
    [
        exchange.number.to_string(),
        asker(exchange, session),
        format!("{}{attempt}", exchange.source.step),
        request.model.clone(),
        outcome(answer),
        tokens(answer),
        micros(answer.and_then(|answer| answer.first_token_us)),
        micros(answer.map(|answer| answer.duration_us)),
        report::bytes(request.bytes),
    ]
}

fn heading(exchange: &Exchange, before: Option<&Exchange>, session: SessionId, color: bool) -> Vec<String> {
    let (request, source) = (&exchange.request, &exchange.source);
    let to = if request.url.is_empty() { "in the daemon process" } else { &request.url };
    let (number, who) = (exchange.number, asker(exchange, session));
    let title = format!("request {number} · {who} · step {} · attempt {}", source.step, request.attempt);
    let mut lines = vec![
        paint(color, STRONG, &visible::line(&title)),
        visible::line(&format!("{} ({}) · {to} · {}", request.model, request.wire, report::bytes(request.bytes))),
    ];
    let ids = [source.turn_id.map(|id| format!("turn {id}")), source.trace_id.map(|id| format!("trace {id}"))];
    let at = Some(format!("sent {}", exchange.at));
    let ids: Vec<String> = ids.into_iter().chain([at]).flatten().collect();
    lines.push(paint(color, QUIET, &ids.join(" · ")));
    lines.extend(headers(&request.headers, color));
    if request.is_cut {
        lines.push("the body was too long and is truncated".to_owned());
    } else if request.body.is_none() {
        lines.push("the body cannot be read: the earlier requests that it refers to are gone".to_owned());
    }
    lines.push(match before {
        Some(before) => format!("+ is new since request {}", before.number),
        None => "no previous request: everything is new".to_owned(),
    });
    lines
}

fn headers(headers: &[(String, String)], color: bool) -> Vec<String> {
    let line = |(name, value): &(String, String)| paint(color, QUIET, &visible::line(&format!("{name}: {value}")));
    headers.iter().map(line).collect()
}

fn answer(exchange: &Exchange, color: bool) -> Vec<String> {
    let Some(answer) = &exchange.answer else {
        return vec![String::new(), paint(color, STRONG, "no answer: its outcome is unknown")];
    };
    let facts = [
        Some(outcome(Some(answer))),
        answer.first_byte_us.map(|span| format!("first byte {}", micros(Some(span)))),
        answer.first_token_us.map(|span| format!("first token {}", micros(Some(span)))),
        Some(micros(Some(answer.duration_us))),
        Some(tokens(Some(answer))).filter(|tokens| !tokens.is_empty()),
        Some(report::bytes(answer.bytes)),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let mut lines = vec![String::new(), paint(color, STRONG, &format!("answer · {}", facts.join(" · ")))];
    lines.extend(answer.error.as_deref().map(visible::line));
    lines.extend(headers(&answer.headers, color));
    let body = answer.body.as_deref().unwrap_or_default();
    lines.extend(visible_body(body).lines().map(str::to_owned));
    if answer.is_cut {
        lines.push("the answer was too long and is truncated".to_owned());
    }
    lines
}

/// Shows lines in a pager on a terminal, and prints them otherwise.
async fn page(lines: Vec<String>) -> anyhow::Result<Exit> {
    let rows = (TerminalStyle::detect().size)().1;
    if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() && lines.len() >= rows {
        let text = lines.join("\n") + "\n";
        if tokio::task::spawn_blocking(move || pager::show(&text, || false)).await?? {
            return Ok(Exit::Done);
        }
    }
    report::lines(lines)?;
    Ok(Exit::Done)
}
