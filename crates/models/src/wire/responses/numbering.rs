//! The numbers of events: a stream in which one is missing was cut somewhere.

/// Numbers of the events of one answer. Servers that number none, or all alike, are not held to it.
#[derive(Debug, Default)]
pub(super) enum Numbering {
    /// No number has come yet.
    #[default]
    Unknown,
    /// The last number; `counted` once there was one behind another.
    Last { number: u64, counted: bool },
    /// This server does not number its events.
    Absent,
}

/// Place of an event in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventPlace {
    /// It is the next one.
    Next,
    /// It has come before.
    Repeated,
    /// One is missing before it: that of this number.
    BehindGap(u64),
}

impl Numbering {
    /// Takes the number of the next event.
    pub(super) fn next(&mut self, number: Option<u64>) -> EventPlace {
        match (&*self, number) {
            (Self::Absent, _) => EventPlace::Next,
            (Self::Unknown, Some(number)) => {
                *self = Self::Last { number, counted: false };
                EventPlace::Next
            }
            (Self::Unknown, None) => {
                *self = Self::Absent;
                EventPlace::Next
            }
            // Gateways add events of their own.
            (Self::Last { .. }, None) => EventPlace::Next,
            (&Self::Last { number: last, counted }, Some(number)) => {
                let expected = last.saturating_add(1);
                if number > expected {
                    EventPlace::BehindGap(expected)
                } else if number == expected {
                    *self = Self::Last { number, counted: true };
                    EventPlace::Next
                } else if counted {
                    EventPlace::Repeated
                } else {
                    *self = Self::Absent;
                    EventPlace::Next
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(numbers: &[Option<u64>], expected: &[EventPlace]) {
        let mut numbering = Numbering::default();
        let places: Vec<EventPlace> = numbers.iter().map(|number| numbering.next(*number)).collect();
        assert_eq!(places, expected, "{numbers:?}");
    }

    #[test]
    fn a_missing_number_is_seen_and_servers_without_numbers_are_left_alone() {
        use EventPlace::{BehindGap, Next, Repeated};
        check(&[Some(0), Some(1), Some(2)], &[Next; 3]);
        check(&[Some(1), Some(2), None, Some(3)], &[Next; 4]);
        check(&[Some(0), Some(2)], &[Next, BehindGap(1)]);
        check(&[Some(0), Some(1), Some(1), Some(0), Some(2)], &[Next, Next, Repeated, Repeated, Next]);
        check(&[Some(0), Some(0), Some(0)], &[Next; 3]);
        check(&[None, Some(7), Some(3)], &[Next; 3]);
        check(&[Some(u64::MAX), Some(u64::MAX)], &[Next; 2]);
    }
}
