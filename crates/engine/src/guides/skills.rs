//! The catalogue of skills.

use agentd_core::item::{ItemBody, NoticeSource, NoticeTopic};

use super::{Opening, frame::harmless, is_told, told};

const PREFACE: &str = "Skills that the person has written down, each with what it is for. Their words cannot be opened \
                       in this session: where one fits, say so.";
const NONE: &str = "There are no skills any more.";
/// Bytes of the catalogue at the most.
const MAX_BYTES: usize = 8 << 10;

/// The notice, where there is something to tell that the history does not say.
pub(crate) fn notice(opening: &Opening<'_>) -> Option<ItemBody> {
    let skills = &opening.guides.skills;
    let now = skills.iter().map(|skill| (skill.path.as_str(), skill.digest.as_str()));
    if !opening.limits.skills || is_told(told(opening.history, NoticeTopic::Skills), now, skills.is_empty()) {
        return None;
    }
    let room = usize::try_from(opening.window / 8).unwrap_or(usize::MAX).min(MAX_BYTES);
    let mut text = if skills.is_empty() { NONE } else { PREFACE }.to_owned();
    let mut sources = Vec::new();
    let mut left_out = 0;
    for skill in skills {
        let line = format!("\n- {}: {}", harmless(&skill.name), harmless(&skill.description));
        let bytes = if left_out == 0 && text.len() + line.len() <= room {
            text.push_str(&line);
            line.len()
        } else {
            left_out += 1;
            0
        };
        let (name, digest) = (skill.path.clone(), skill.digest.clone());
        sources.push(NoticeSource { name, bytes: bytes as u64, digest });
    }
    if left_out > 0 {
        text.push_str(&format!("\n({left_out} more are left out: there is no room)"));
    }
    Some(ItemBody::Notice { text, topic: NoticeTopic::Skills, sources, pictures: Vec::new() })
}
