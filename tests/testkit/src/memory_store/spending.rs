//! Usage computed from individual calls. Days are UTC days.

use agentd_core::{
    Date, Timestamp,
    error::{ErrorKind, StoreError},
    event::{Event, EventKind},
    ids::SessionId,
    spending::{SideUsage, UsageGroup, UsageGrouping, UsageQuery, UsageReport},
};

use super::State;

/// A counted call, and the user's session while the session exists.
pub(super) type CountedCall = (Option<SessionId>, SideUsage);

impl State {
    pub(super) fn count(&mut self, event: &Event) {
        if let EventKind::UsageUpdated { slot, model, usage, delegated: false, .. } = &event.kind {
            let mut person = event.session_id;
            while let Some(parent) = self.parent(person) {
                person = parent;
            }
            let usage = SideUsage { at: event.at, slot: *slot, model: model.clone(), usage: *usage };
            self.calls.push((Some(person), usage));
        }
    }

    pub(super) fn remove_calls(&mut self, gone: &[SessionId]) {
        for (session, _) in &mut self.calls {
            *session = session.filter(|id| !gone.contains(id));
        }
    }

    pub(super) fn report(&self, query: &UsageQuery, now: Timestamp) -> Result<UsageReport, StoreError> {
        let (since, until) = query.days(day(now));
        if since.is_some_and(|since| since > until) {
            return Err(StoreError::new(ErrorKind::InvalidInput, "the last day is before the first"));
        }
        let is_meant = |day: Date| since.is_none_or(|since| since <= day) && day <= until;
        let calls: Vec<_> = self.calls.iter().filter(|(_, call)| is_meant(day(call.at))).collect();
        let mut report = UsageReport {
            since: since.or(calls.iter().map(|(_, call)| day(call.at)).min()),
            until,
            time_zone: "UTC".to_owned(),
            by: query.by,
            groups: Vec::new(),
            left_out: 0,
            total: Default::default(),
        };
        for (session, SideUsage { at, slot, model, usage }) in calls {
            let name = match query.by {
                UsageGrouping::Model => model.clone(),
                UsageGrouping::Slot => slot.to_string(),
                UsageGrouping::Day => day(*at).to_string(),
                UsageGrouping::Session => session.map(|id| id.to_string()).unwrap_or_default(),
            };
            report.total += *usage;
            match report.groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.usage += *usage,
                None => {
                    let stored = session.filter(|_| query.by == UsageGrouping::Session).and_then(|id| self.session(id));
                    let title = stored.map(|stored| stored.summary.title).unwrap_or_default();
                    report.groups.push(UsageGroup { name, title, usage: *usage });
                }
            }
        }
        match query.by {
            UsageGrouping::Day => report.groups.sort_by(|a, b| a.name.cmp(&b.name)),
            _ => {
                let order = |group: &UsageGroup| (group.usage.cost_microusd, group.usage.tokens());
                report.groups.sort_by_key(|group| std::cmp::Reverse(order(group)));
            }
        }
        Ok(report)
    }
}

fn day(at: Timestamp) -> Date {
    let days = at.as_second().div_euclid(86_400);
    let epoch: Date = "1970-01-01".parse().unwrap_or(Date::ZERO);
    epoch.checked_add(std::time::Duration::from_secs(days.unsigned_abs() * 86_400)).unwrap_or(epoch)
}
