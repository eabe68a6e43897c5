//! The events of subagents, between those of the session for which they work.

use agentd_core::{
    agent::Subagent,
    event::{Event, EventKind, StateChange},
    item::{Item, ItemBody},
};
use agentd_proto::client::{Client, EventStream};
use futures_util::{FutureExt as _, future::select_all};

/// The subagents that are under way.
#[derive(Debug, Default)]
pub(crate) struct Children {
    known: Vec<Child>,
}

#[derive(Debug)]
struct Child {
    subagent: Subagent,
    /// The number of its last stored event that came in.
    seen: u64,
    /// Its events as they come; none where it could not be listened to yet.
    live: Option<EventStream>,
    /// Those that had not come when its work was over.
    rest: Option<Rest>,
}

#[derive(Debug)]
struct Rest {
    events: EventStream,
    /// The number of the last of them. What comes behind it belongs to no work that is over.
    last: u64,
}

impl Children {
    /// Does what an event of the parent asks for, and returns what is told before it: of a subagent whose work is over, the
    /// next of all that is left to tell. The same event is brought again until nothing is. Dropping the wait loses nothing.
    pub(crate) async fn before(&mut self, client: &Client, event: &Event) -> Option<Event> {
        match &event.kind {
            EventKind::StateChanged { change: StateChange::Subagent(subagent) } => {
                if !self.known.iter().any(|child| child.subagent == *subagent) {
                    let (subagent, seen) = (subagent.clone(), subagent.after);
                    self.known.push(Child { subagent, seen, live: None, rest: None });
                }
            }
            EventKind::ItemCompleted { item: Item { body: ItemBody::ToolResult(result), .. }, .. } => {
                let over = self.known.iter().position(|child| child.subagent.call_id == result.call_id)?;
                let left = self.known[over].left(client).await;
                if left.is_none() {
                    self.known.remove(over);
                }
                return left;
            }
            _ => self.listen(client).await,
        }
        None
    }

    /// Listens to those that are not listened to yet. One that has not begun is tried again with the next event.
    async fn listen(&mut self, client: &Client) {
        for child in self.known.iter_mut().filter(|child| child.live.is_none()) {
            child.live = client.subscribe(&child.subagent.session_id.to_string(), child.seen, false).await.ok();
        }
    }

    /// The next event of any of them; never where none is listened to.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            let live = self.known.iter_mut().enumerate();
            let waits = live.filter_map(|(index, child)| {
                let live = child.live.as_mut()?;
                Some(live.next().map(move |heard| (index, heard)).boxed())
            });
            let waits: Vec<_> = waits.collect();
            if waits.is_empty() {
                return std::future::pending().await;
            }
            let ((index, heard), ..) = select_all(waits).await;
            let Some(child) = self.known.get_mut(index) else { continue };
            match heard {
                Ok(Some(event)) => {
                    child.note(&event);
                    // The others have their turn first.
                    self.known[index..].rotate_left(1);
                    return event;
                }
                // What is missing comes when its work is over.
                Ok(None) | Err(_) => child.live = None,
            }
        }
    }
}

impl Child {
    fn note(&mut self, event: &Event) {
        if event.kind.is_stored() {
            self.seen = self.seen.max(event.seq);
        }
    }

    /// The next of what is left to tell when its work is over; none when all is told, or nothing can be heard of it.
    async fn left(&mut self, client: &Client) -> Option<Event> {
        if self.rest.is_none() {
            self.live = None;
            let id = self.subagent.session_id.to_string();
            let last = client.session(&id).await.ok()?.session.summary.last_seq;
            let events = client.subscribe(&id, self.seen, false).await.ok()?;
            self.rest = Some(Rest { events, last });
        }
        let Rest { events, last } = self.rest.as_mut()?;
        if self.seen >= *last {
            return None;
        }
        let event = events.next().await.ok()??;
        self.note(&event);
        Some(event)
    }
}
