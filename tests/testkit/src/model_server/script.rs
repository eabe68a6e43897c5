//! Selects the next reply.

use std::{collections::VecDeque, fmt, sync::Arc};

use super::{Recorded, Reply};

type Respond = Arc<dyn Fn(&Recorded) -> Reply + Send + Sync>;

/// Replies in the order of requests, and a fallback for requests that match none of them.
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
    /// Creates a script that calls a function for each reply.
    pub fn of(respond: impl Fn(&Recorded) -> Reply + Send + Sync + 'static) -> Self {
        Self { replies: VecDeque::new(), otherwise: Arc::new(respond) }
    }

    /// Creates a script with these replies, followed by the default reply. The text is a JSON array of replies, or one
    /// reply per line.
    ///
    /// # Errors
    /// Returns an error if the text has neither form.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let replies = if text.trim_start().starts_with('[') {
            serde_json::from_str(text)?
        } else {
            text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str).collect::<Result<_, _>>()?
        };
        Ok(Self { replies, ..Self::default() })
    }

    /// Adds a reply to the end of the queue.
    pub fn push(&mut self, reply: Reply) {
        self.replies.push_back(reply);
    }

    /// Sets a function that replies whenever no queued reply matches.
    pub fn respond_with(&mut self, respond: impl Fn(&Recorded) -> Reply + Send + Sync + 'static) {
        self.otherwise = Arc::new(respond);
    }

    /// Returns the number of queued replies, not counting repeated ones.
    pub fn waiting(&self) -> usize {
        self.replies.iter().filter(|reply| !reply.repeat).count()
    }

    /// Returns the reply to a request: the first reply whose condition matches, or else the first reply without a
    /// condition.
    pub fn next(&mut self, request: &Recorded) -> Reply {
        let body = if self.replies.iter().any(|reply| reply.r#match.is_some()) {
            request.body.to_string()
        } else {
            String::new()
        };
        let matching = |reply: &Reply| reply.r#match.as_ref().is_some_and(|text| body.contains(text.as_str()));
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
