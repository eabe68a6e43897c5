//! Model test: checks the capabilities of a model and its server one by one, before a user relies on them.
//!
//! - `questions`: the requests, and the answers received.
//! - this module: the interpretation of the answers. As in a turn, findings about tools, reasoning, fields and the
//!   window are recorded. Earlier records are removed first.

mod questions;

use std::{slice, time::Duration};

use agentd_core::{
    error::ModelError,
    ids::SessionId,
    model::{ChangeTopic, CheckState, ModelCheck, ModelInfo, ModelRequest, ModelTestPlan, WindowSource},
    usage::Usage,
};
use agentd_engine::ProbedModel;

use self::questions::{CODE_WORD, COLOUR, LongQuestion, ReceivedAnswer, complete_answer};

const REQUESTS: u32 = 6;

/// Approximate number of tokens in all short requests and their answers.
const SHORT_TOKENS: u64 = 2_000;

/// Time limit for the first answer. The server may have to load the model.
const FIRST_LIMIT: Duration = Duration::from_secs(6 * 60);

/// Time limit for each subsequent answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2 * 60);

/// Minimum speedup of the second answer that indicates a cache, and minimum time of the first answer for a significant
/// speedup.
const CACHE_SPEEDUP: u32 = 3;
const MIN_FIRST_WAIT: Duration = Duration::from_millis(600);

/// Test in progress. Dropping it cancels it.
pub(crate) struct ModelTest {
    probed: ProbedModel,
    session: SessionId,
    long: LongQuestion,
    /// Remaining checks of the test.
    remaining: slice::Iter<'static, (Stage, &'static str, &'static str)>,
    /// True once the model has made a valid call.
    calls: bool,
    /// First answer to the long question.
    long_answer: Option<ReceivedAnswer>,
    usage_so_far: Usage,
}

/// Checks, in execution order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Reach,
    Tools,
    ParallelCalls,
    Thoughts,
    Window,
    SilentCut,
    Cache,
    Pictures,
    Parameters,
    Price,
}

impl Stage {
    /// All checks, with their names and their messages for the built-in model.
    const ALL: &[(Self, &str, &str)] = &[
        (Self::Reach, "reachable", NO_SERVER),
        (Self::Tools, "tools", TOOLS_CHOSEN),
        (Self::ParallelCalls, "parallel calls", TOOLS_CHOSEN),
        (Self::Thoughts, "thoughts", "does not apply: the built-in model does not reason"),
        (Self::Window, "window", WINDOW_ENFORCED),
        (Self::SilentCut, "silent cut", WINDOW_ENFORCED),
        (Self::Cache, "cache", NO_SERVER),
        (Self::Pictures, "pictures", "does not apply: the built-in model does not accept pictures"),
        (Self::Parameters, "parameters", NO_SERVER),
        (Self::Price, "price", NO_SERVER),
    ];
}

/// Message for checks that do not apply to the built-in model.
const NO_SERVER: &str = "does not apply: the built-in model has no server";
const TOOLS_CHOSEN: &str = "does not apply: the daemon chooses the tools for the built-in model";
const WINDOW_ENFORCED: &str = "does not apply: the daemon enforces its window";

/// Result of a check, without its name.
type Finding = (CheckState, String, Option<String>);

fn ok(message: impl Into<String>) -> Finding {
    (CheckState::Ok, message.into(), None)
}

fn skipped(message: impl Into<String>) -> Finding {
    (CheckState::Skipped, message.into(), None)
}

fn warn(message: impl Into<String>, hint: impl Into<String>) -> Finding {
    (CheckState::Warn, message.into(), Some(hint.into()))
}

fn fail(message: impl Into<String>, hint: Option<String>) -> Finding {
    (CheckState::Fail, message.into(), hint)
}

fn refusal(problem: &str, error: &ModelError) -> Finding {
    fail(format!("{problem}: {error}"), error.hint().map(str::to_owned))
}

impl ModelTest {
    /// Prepares a test without sending a request.
    pub(crate) fn new(probed: ProbedModel) -> Self {
        let model = &probed.model;
        // A window that was derived from a refusal or a silent truncation is ignored.
        let window = match model.info().window_source {
            WindowSource::Refusal | WindowSource::Cut => u64::MAX,
            WindowSource::Default | WindowSource::Configured | WindowSource::Catalogue | WindowSource::Server => {
                model.info().context_window
            }
        };
        let long = LongQuestion::for_window(window);
        let (session, remaining) = (SessionId::generate(), Stage::ALL.iter());
        Self { probed, session, long, remaining, calls: false, long_answer: None, usage_so_far: Usage::default() }
    }

    /// Returns the outline of the test, with the number of requests and tokens.
    pub(crate) fn plan(&self) -> ModelTestPlan {
        let info = self.probed.model.info();
        let (requests, tokens) = if info.embedded {
            (1, 100)
        } else {
            (REQUESTS + u32::from(info.sees_pictures), SHORT_TOKENS + 2 * self.long.tokens())
        };
        ModelTestPlan { model: info.id.clone(), requests, tokens }
    }

    /// Runs the next check. Returns `None` at the end, or if the model could not be reached.
    pub(crate) async fn next(&mut self) -> Option<ModelCheck> {
        let (stage, name, skip_reason) = *self.remaining.next()?;
        let (state, message, hint) = if self.probed.model.info().embedded && stage != Stage::Reach {
            skipped(skip_reason)
        } else {
            self.check(stage).await
        };
        if stage == Stage::Reach && state == CheckState::Fail {
            self.remaining = [].iter();
        }
        Some(ModelCheck { name: name.to_owned(), state, message, hint })
    }

    async fn check(&mut self, stage: Stage) -> Finding {
        match stage {
            Stage::Reach => self.reach().await,
            Stage::Tools => self.tools().await,
            Stage::ParallelCalls => self.parallel_calls().await,
            Stage::Thoughts => self.thoughts().await,
            Stage::Window => window(self.probed.model.info()),
            Stage::SilentCut => self.silent_cut().await,
            Stage::Cache => self.cache().await,
            Stage::Pictures => self.pictures().await,
            Stage::Parameters => self.parameters(),
            Stage::Price => self.price(),
        }
    }

    /// Sends a request to the model and counts its usage.
    async fn ask(&mut self, request: ModelRequest, limit: Duration) -> Result<ReceivedAnswer, ModelError> {
        let (answer, usage) = complete_answer(&*self.probed.model, request, limit).await;
        self.probed.count(usage).await;
        self.usage_so_far += usage;
        answer
    }

    async fn reach(&mut self) -> Finding {
        match self.ask(questions::greeting(self.session), FIRST_LIMIT).await {
            Ok(answer) => {
                // Earlier findings are only discarded if the server answers.
                self.probed.windows.forget(self.probed.model.info());
                self.probed.model.forget();
                self.probed.model.look_up().await;
                self.probed.model.look_up_vision().await;
                let ModelInfo { id, base_url, .. } = self.probed.model.info();
                let location = base_url.as_ref().map_or_else(String::new, |url| format!(" at {url}"));
                ok(format!("{id}{location} answered, first token after {:.1} s", answer.latency.as_secs_f64()))
            }
            Err(error) => fail(error.to_string(), error.hint().map(str::to_owned)),
        }
    }

    async fn tools(&mut self) -> Finding {
        let mut answer = self.ask(questions::one_call(self.session), ANSWER_LIMIT).await;
        // A single refusal may be a coincidence, so the request is sent twice.
        if answer.is_ok() && !self.learnt(ChangeTopic::Tools).is_empty() {
            answer = self.ask(questions::one_call(self.session), ANSWER_LIMIT).await;
        }
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return refusal("rejected", &error),
        };
        self.calls = answer.calls.iter().any(questions::is_call);
        let native = self.probed.model.info().native_tools;
        if !self.calls {
            let mode = if native { "" } else { ", with calls written as text" };
            return fail(
                format!("the model did not call the requested tool{mode}: {}", answer.excerpt()),
                Some(
                    "use a model with tool support, let its server parse tool calls, or try native_tools: false".into(),
                ),
            );
        }
        let learnt = self.learnt(ChangeTopic::Tools);
        match (native, learnt.is_empty()) {
            (true, true) => ok("native tool calls work"),
            (true, false) => {
                warn(format!("tool calls work; {learnt}"), "no action needed; requests cost slightly more")
            }
            (false, true) => ok("calls are read from the text, as configured"),
            (false, false) => warn(
                "calls are read from the text: the server does not accept native tools",
                "let the server parse tool calls (llama.cpp: --jinja; vLLM: --enable-auto-tool-choice and \
                 --tool-call-parser), or use a model with tool support",
            ),
        }
    }

    async fn parallel_calls(&mut self) -> Finding {
        if !self.calls {
            return skipped("the model calls no tools");
        }
        if !self.probed.model.info().native_tools {
            return skipped("calls in the text are made one at a time");
        }
        match self.ask(questions::two_calls(self.session), ANSWER_LIMIT).await {
            Ok(answer) if answer.calls.iter().filter(|call| questions::is_call(call)).count() > 1 => {
                ok("several calls in one answer")
            }
            Ok(_) => warn("one call per answer", "no action needed; turns take more steps"),
            Err(error) => refusal("rejected", &error),
        }
    }

    async fn thoughts(&mut self) -> Finding {
        let request = questions::answered_call(self.session);
        match self.ask(request, ANSWER_LIMIT).await {
            Ok(_) if self.probed.model.info().echo_reasoning => {
                ok("earlier reasoning is sent back, as required by the server or configured")
            }
            Ok(_) => ok("a call and its result are accepted without earlier reasoning"),
            Err(error) => refusal("a call and its result were rejected", &error),
        }
    }

    async fn silent_cut(&mut self) -> Finding {
        let tokens = self.long.tokens();
        let answer = match self.ask(self.long.request(self.session), ANSWER_LIMIT).await {
            Ok(answer) => answer,
            Err(error) => {
                if let Some(window) = error.window() {
                    self.probed.model.note_window(window, WindowSource::Refusal);
                }
                return warn(
                    format!("a request of about {tokens} tokens was rejected: {error}"),
                    error.hint().unwrap_or("set context_window to the server's actual window").to_owned(),
                );
            }
        };
        let Usage { prompt_tokens, cached_tokens, .. } = answer.usage.counted().unwrap_or_default();
        let read = prompt_tokens.saturating_add(cached_tokens);
        let recalls_start = answer.text.to_lowercase().contains(CODE_WORD);
        self.long_answer = Some(answer);
        if read == 0 {
            return if recalls_start {
                ok(format!("the start of about {tokens} tokens was recalled, but the server reports no token counts"))
            } else {
                warn("the start was not recalled, and the server reports no token counts", WINDOW_HINT)
            };
        }
        // Each word and each number in the text has at least one token in any vocabulary.
        match (read >= tokens / 10 * 7, recalls_start) {
            (true, true) => ok(format!("{prompt_tokens} tokens were read, and their start was recalled")),
            (true, false) => warn(
                format!("{prompt_tokens} tokens were counted, but their start was not recalled"),
                "the model handles long texts badly, or its server drops part of them",
            ),
            (false, true) => ok(format!(
                "the start of about {tokens} tokens was recalled; the server reports only {prompt_tokens} of them"
            )),
            (false, false) => {
                self.probed.model.note_window(prompt_tokens, WindowSource::Cut);
                warn(format!("of about {tokens} tokens, only {prompt_tokens} were read, without an error"), WINDOW_HINT)
            }
        }
    }

    async fn cache(&mut self) -> Finding {
        let Some(first) = self.long_answer.take() else { return skipped("the long request was rejected") };
        let second = match self.ask(self.long.request(self.session), ANSWER_LIMIT).await {
            Ok(second) => second,
            Err(error) => return warn(format!("the repeated request was rejected: {error}"), "test again later"),
        };
        let Usage { prompt_tokens, cached_tokens, .. } = second.usage.counted().unwrap_or_default();
        if cached_tokens > 0 {
            return ok(format!(
                "{cached_tokens} of {prompt_tokens} tokens of the repeated request came from the cache"
            ));
        }
        if first.latency >= MIN_FIRST_WAIT && second.latency * CACHE_SPEEDUP < first.latency {
            return ok(format!(
                "the repeated request was answered after {:.1} s instead of {:.1} s; the server reports no cached tokens",
                second.latency.as_secs_f64(),
                first.latency.as_secs_f64()
            ));
        }
        warn(
            "no sign of a cache: repeated input seems to be recomputed",
            "turns are slower and cost more; enable the server's prompt cache, which may need longer requests",
        )
    }

    async fn pictures(&mut self) -> Finding {
        if !self.probed.model.info().sees_pictures {
            return skipped(
                "no pictures are sent: neither the server nor models.yaml (sees_pictures: true) declares support",
            );
        }
        const HINT: &str = "set sees_pictures: false in models.yaml, or set a vision model in the slot vision";
        match self.ask(questions::picture(self.session), ANSWER_LIMIT).await {
            Ok(_) if !self.learnt(ChangeTopic::Pictures).is_empty() => {
                fail("the server rejects pictures", Some(HINT.to_owned()))
            }
            Ok(answer)
                if answer.text.to_lowercase().split(|char: char| !char.is_alphabetic()).any(|word| word == COLOUR) =>
            {
                ok("the model recognised a picture")
            }
            Ok(answer) => warn(
                format!("a red picture was accepted, but not recognised: {}", answer.excerpt()),
                "the model may have poor vision, or its server drops pictures",
            ),
            Err(error) => fail(format!("a picture was rejected: {error}"), Some(HINT.to_owned())),
        }
    }

    /// Reports the cost of the test itself.
    fn price(&self) -> Finding {
        let tokens = self.usage_so_far.tokens();
        match self.usage_so_far.cost_microusd.filter(|_| self.usage_so_far.unpriced_calls == 0) {
            Some(cost) => ok(format!("this test used {tokens} tokens, about ${:.4}", micros(cost))),
            None => (
                CheckState::Skipped,
                format!("this test used {tokens} tokens; their cost is unknown"),
                Some("set prices in models.yaml to count it".to_owned()),
            ),
        }
    }

    fn parameters(&self) -> Finding {
        match self.learnt(ChangeTopic::Parameters) {
            learnt if learnt.is_empty() => ok("all request fields are accepted"),
            learnt => warn(
                format!("requests are sent {learnt}"),
                "remove the rejected settings from models.yaml, if set there",
            ),
        }
    }

    /// Returns the request changes learnt about a topic, as text.
    fn learnt(&self, topic: ChangeTopic) -> String {
        let learnt = self.probed.model.learnt().into_iter().filter(|change| change.topic == topic);
        learnt.map(|change| change.words).collect::<Vec<_>>().join("; ")
    }
}

#[expect(clippy::cast_precision_loss, reason = "money for display")]
fn micros(cost: u64) -> f64 {
    cost as f64 / 1_000_000.0
}

const WINDOW_HINT: &str = "increase the window: in Ollama set OLLAMA_CONTEXT_LENGTH, or num_ctx of the model; \
                           elsewhere the context size of the server";

fn window(info: &ModelInfo) -> Finding {
    let tokens = info.context_window;
    match info.window_source {
        WindowSource::Default => warn(
            format!("{tokens} tokens assumed: the actual window is unknown"),
            "set context_window in models.yaml, or a variable such as MODEL_BASIC_CONTEXT_WINDOW",
        ),
        WindowSource::Configured => ok(format!("{tokens} tokens, as configured")),
        WindowSource::Catalogue => ok(format!("{tokens} tokens, as published")),
        WindowSource::Server => ok(format!("{tokens} tokens, as reported by the server")),
        WindowSource::Refusal => ok(format!("{tokens} tokens, as reported when the server refused a longer request")),
        WindowSource::Cut => {
            warn(format!("{tokens} tokens: the server silently truncates longer requests"), WINDOW_HINT)
        }
    }
}
