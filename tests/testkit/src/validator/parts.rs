//! User content other than plain text: lists of texts and pictures.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::{Checked, broken, check_not_blank, refuse_if};

/// Media types of pictures that all providers accept, and their magic bytes.
const PICTURE_TYPES: [(&str, &[u8]); 4] =
    [("image/png", b"\x89PNG"), ("image/jpeg", b"\xff\xd8\xff"), ("image/gif", b"GIF8"), ("image/webp", b"RIFF")];
/// Maximum size of one picture, in bytes.
const MAX_PICTURE: usize = 5 << 20;

/// Checks a text, or an array of parts that are texts or inline pictures.
pub(super) fn check(location: &str, content: &Value) -> Checked {
    let Some(parts) = content.as_array() else { return check_not_blank(location, content) };
    refuse_if(parts.is_empty(), location, "missing parts")?;
    for (at, part) in parts.iter().enumerate() {
        let location = format!("{location}[{at}]");
        match part["type"].as_str() {
            Some("text") => check_not_blank(&format!("{location}.text"), &part["text"])?,
            Some("image_url") => check_picture(&format!("{location}.image_url.url"), &part["image_url"]["url"])?,
            _ => return broken(location, format!("{} is not a known part type", part["type"])),
        }
    }
    Ok(())
}

/// Checks an inline picture.
pub(super) fn check_picture(location: &str, url: &Value) -> Checked {
    let data = url.as_str().and_then(|url| url.strip_prefix("data:")).and_then(|data| data.split_once(";base64,"));
    let Some((kind, data)) = data else { return broken(location, "a picture must be inline base64 data") };
    check_data(location, kind, data)
}

/// Checks picture data of the given type.
pub(super) fn check_data(location: &str, kind: &str, data: &str) -> Checked {
    let Ok(bytes) = BASE64_STANDARD.decode(data) else { return broken(location, "invalid base64") };
    let Some((_, begins)) = PICTURE_TYPES.iter().find(|(seen, _)| *seen == kind) else {
        return broken(location, format!("{kind:?} is not a supported picture type"));
    };
    refuse_if(!bytes.starts_with(begins), location, format!("not valid {kind} data"))?;
    if bytes.len() > MAX_PICTURE {
        return broken(location, format!("the picture has {} bytes; the limit is {MAX_PICTURE}", bytes.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_text_and_data_url_pictures_are_accepted() {
        let picture = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
        let png = format!("data:image/png;base64,{}", BASE64_STANDARD.encode(b"\x89PNG..."));
        let fine = |content: &Value| check("content", content).is_ok();
        assert!(fine(&json!("words")) && fine(&json!([{"type": "text", "text": "words"}, picture(&png)])));
        assert!(!fine(&json!([])) && !fine(&json!([{"type": "text", "text": " "}])));
        for url in
            ["https://h/a.png", "data:image/png;base64,!", "data:image/png;base64,AAAA", "data:text/plain;base64,"]
        {
            assert!(!fine(&json!([picture(url)])), "{url}");
        }
    }
}
