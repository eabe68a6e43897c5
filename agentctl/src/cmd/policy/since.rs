//! A moment in the past, as people write it: `90m`, `36h`, `7d`, `2w`, or a time such as `2026-01-31T12:00:00Z`.

use agentd_core::Timestamp;

/// Reads one.
pub(super) fn parse(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    let problem = || format!("{text:?} is not a time; write `90m`, `36h`, `7d`, `2w` or `2026-01-31T12:00:00Z`");
    let unit = text.chars().last().ok_or_else(problem)?;
    let seconds: i64 = match unit {
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return Err(problem()),
    };
    let number: i64 = text[..text.len() - 1].parse().map_err(|_| problem())?;
    let back = number.checked_mul(seconds).filter(|back| *back >= 0).ok_or_else(problem)?;
    Timestamp::from_second(Timestamp::now().as_second() - back).map_err(|_| problem())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_in_both_forms() {
        assert!(parse("2026-01-31T12:00:00Z").is_ok());
        let ago = |text: &str| Timestamp::now().as_second() - parse(text).unwrap().as_second();
        assert!((ago("2w") - 1_209_600).abs() <= 1);
        assert!((ago("90m") - 5_400).abs() <= 1);
        for wrong in ["", "d", "7", "7y", "-1d", "99999999999999999w", "é"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
