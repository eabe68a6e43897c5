//! Which reply comes next.

use std::{collections::VecDeque, fmt, sync::Arc};

use super::{Recorded, Reply};

type Respond = Arc<dyn Fn(&Recorded) -> Reply + Send + Sync>;

/// Replies in the order of requests, and what is answered when none of them fits.
#[derive(Clone)]
pub struct Script {
    replies: VecDeque<Reply>,
    otherwise: Respond,
}

impl Default for Script {
    fn default() -> Self {
        Self::of(|_| Reply::text("Hello from the model server."))
    }
}

impl Script {
    /// Answers by a function.
    pub fn of(respond: impl Fn(&Recorded) -> Reply + Send + Sync + 'static) -> Self {
        Self { replies: VecDeque::new(), otherwise: Arc::new(respond) }
    }

    /// Answers with these replies, then as usual. The text is a JSON array of replies, or one reply for each line.
    ///
    /// # Errors
    /// Where the text is neither.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let replies = if text.trim_start().starts_with('[') {
            serde_json::from_str(text)?
        } else {
            text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str).collect::<Result<_, _>>()?
        };
        Ok(Self { replies, ..Self::default() })
    }

    /// Adds a reply behind those that wait.
    pub fn push(&mut self, reply: Reply) {
        self.replies.push_back(reply);
    }

    /// Answers by a function whenever no reply fits.
    pub fn respond_with(&mut self, respond: impl Fn(&Recorded) -> Reply + Send + Sync + 'static) {
        self.otherwise = Arc::new(respond);
    }

    /// The replies that wait, without those that are used again and again.
    pub fn waiting(&self) -> usize {
        self.replies.iter().filter(|reply| !reply.repeat).count()
    }

    /// The reply to a request: the first that matches its words, else the first that asks for none.
    pub fn next(&mut self, request: &Recorded) -> Reply {
        let body = if self.replies.iter().any(|reply| reply.r#match.is_some()) {
            request.body.to_string()
        } else {
            String::new()
        };
        let matching = |reply: &Reply| reply.r#match.as_ref().is_some_and(|words| body.contains(words.as_str()));
        let fitting = self.replies.iter().position(matching);
        let fitting = fitting.or_else(|| self.replies.iter().position(|reply| reply.r#match.is_none()));
        match fitting {
            Some(at) if self.replies[at].repeat => self.replies[at].clone(),
            Some(at) => self.replies.remove(at).unwrap_or_default(),
            None => (self.otherwise)(request),
        }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("replies", &self.replies).finish_non_exhaustive()
    }
}
