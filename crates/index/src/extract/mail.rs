//! Mail messages: headers, text, and attachments, each as a separate document.

use std::{collections::HashSet, io::Cursor};

use mail_parser::{Address, MessageParser, MessagePart, MimeHeaders as _};
use office_oxide::cfb::CfbReader;

use super::{
    Emitter,
    archive::{self, UnreadFiles},
    broken, clean, html,
};
use crate::{document::DocumentPlace, failure::Failure, kind::Kind};

/// Maximum number of addresses in a list, and of attachments.
const MAX_ENTRIES: usize = 200;
/// Maximum length of a file name in bytes.
const NAME_BYTES: usize = 200;
/// Maximum length of a file extension in bytes.
const EXTENSION_BYTES: usize = 20;

pub(super) fn message(bytes: &[u8], emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let mail = MessageParser::default().parse(bytes).ok_or_else(|| broken(Kind::Eml, "it has no header"))?;
    let mut message = Message {
        subject: mail.subject().unwrap_or_default().to_owned(),
        date: mail.date().map(|date| date.to_rfc822()).unwrap_or_default(),
        ..Message::default()
    };
    for (list, into) in [(mail.from(), &mut message.from), (mail.to(), &mut message.to), (mail.cc(), &mut message.copy)]
    {
        let (address_list, is_cut) = address_list(list);
        *into = address_list;
        message.has_cut_addresses |= is_cut;
    }
    let texts = (0..mail.text_body_count()).filter_map(|at| mail.body_text(at));
    message.text = texts.collect::<Vec<_>>().join("\n\n");
    // Many messages also have a plain text. For messages with HTML only, the library's conversion would lose tables and
    // lists.
    let pages: Vec<_> = (0..mail.html_body_count()).filter_map(|at| mail.body_html(at)).collect();
    let is_page = mail.text_bodies().all(|part| part.is_text_html());
    if is_page && !pages.is_empty() {
        message.text = html::markdown(&pages.join("\n")).map_err(|reason| broken(Kind::Eml, &reason))?;
    }
    message.has_many_files = mail.attachment_count() > MAX_ENTRIES;
    message.files = unique_names(mail.attachments().take(MAX_ENTRIES).map(attached));
    message.emit(Kind::Eml, emitter)
}

/// Returns the day and the subject of a message, as part of a file name.
pub(super) fn summary(message: &[u8]) -> String {
    const SUBJECT_BYTES: usize = 80;
    let headers = MessageParser::default().parse_headers(message);
    let subject = headers.as_ref().and_then(|headers| headers.subject()).unwrap_or("without subject");
    let subject = clean::line(&subject.replace(['/', '\\'], "_"), SUBJECT_BYTES);
    let date = headers.as_ref().and_then(|headers| headers.date());
    let day = date.map(|date| format!("{:04}-{:02}-{:02} ", date.year, date.month, date.day));
    day.unwrap_or_default() + &subject
}

/// Converts an attachment. Attached messages become `.eml` files.
fn attached(part: &MessagePart<'_>) -> Attachment {
    if let Some(inner) = part.message() {
        let name = format!("{}.eml", inner.subject().unwrap_or("message"));
        return Attachment { name, content: Some(inner.raw_message().to_vec()) };
    }
    let name = part.attachment_name().unwrap_or("a file without a name").to_owned();
    // Inline images are mostly logos or signatures, so they are not read.
    let is_picture = part.content_type().is_some_and(|kind| kind.ctype().eq_ignore_ascii_case("image"));
    let is_attached = part.content_disposition().is_some_and(|disposition| disposition.is_attachment());
    let is_in_text = is_picture && part.content_id().is_some() && !is_attached;
    Attachment { name, content: (!is_in_text).then(|| part.contents().to_vec()) }
}

pub(super) fn outlook(bytes: Vec<u8>, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
    let failure = |error: office_oxide::cfb::CfbError| broken(Kind::Msg, &error.to_string());
    let mut file = CfbReader::new(Cursor::new(bytes)).map_err(failure)?;
    let mut message = Message {
        subject: property(&mut file, "", 0x0037),
        from: property(&mut file, "", 0x0c1a),
        to: property(&mut file, "", 0x0e04),
        copy: property(&mut file, "", 0x0e03),
        text: property(&mut file, "", 0x1000),
        ..Message::default()
    };
    if message.text.trim().is_empty() {
        // Fall back to the HTML body, in the encoding that the body declares.
        let page = file.open_stream_by_path("__substg1.0_10130102").unwrap_or_default();
        message.text = html::markdown(&html::decode_page(&page)).map_err(|reason| broken(Kind::Msg, &reason))?;
    }
    let mut files = outlook_files(&mut file);
    message.has_many_files = files.len() > MAX_ENTRIES;
    files.truncate(MAX_ENTRIES);
    message.files = unique_names(files.into_iter());
    message.emit(Kind::Msg, emitter)
}

/// Returns the attachments of an Outlook message, up to one more than the limit so that the caller can detect the
/// excess.
fn outlook_files(file: &mut CfbReader<Cursor<Vec<u8>>>) -> Vec<Attachment> {
    let mut files = Vec::new();
    for number in 0..=MAX_ENTRIES {
        let folder = format!("__attach_version1.0_#{number:08X}/");
        let names = [0x3707, 0x3704, 0x3001].map(|name| property(file, &folder, name));
        let Some(name) = names.into_iter().find(|name| !name.trim().is_empty()) else { break };
        // An attached message is stored as a folder and is not read.
        let content = file.open_stream_by_path(&format!("{folder}__substg1.0_37010102")).ok();
        files.push(Attachment { name, content });
    }
    files
}

/// Returns a text property of an Outlook message by number. Empty if the property is missing.
fn property(file: &mut CfbReader<Cursor<Vec<u8>>>, folder: &str, number: u16) -> String {
    if let Ok(bytes) = file.open_stream_by_path(&format!("{folder}__substg1.0_{number:04X}001F")) {
        return encoding_rs::UTF_16LE.decode_without_bom_handling(&bytes).0.trim_end_matches('\0').to_owned();
    }
    let bytes = file.open_stream_by_path(&format!("{folder}__substg1.0_{number:04X}001E")).unwrap_or_default();
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    super::clean::decode(&bytes[..end], None)
}

#[derive(Debug)]
struct Attachment {
    name: String,
    /// Content of the file, or `None` if it is not read.
    content: Option<Vec<u8>>,
}

/// Makes the names of attachments valid and unique.
fn unique_names(files: impl Iterator<Item = Attachment>) -> Vec<Attachment> {
    let mut used = HashSet::new();
    let own = |Attachment { name, content }: Attachment| {
        let plain = name.replace(['/', '\\'], "_");
        let whole = plain.rsplit_once('.').filter(|(_, ending)| ending.len() <= EXTENSION_BYTES);
        let (stem, ending) = whole.map_or((&*plain, String::new()), |(stem, ending)| (stem, format!(".{ending}")));
        // Leaves space for the extension, which determines the type, and for a number.
        let stem = clean::line(stem, NAME_BYTES - 2 * EXTENSION_BYTES);
        let ending = clean::line(&ending, EXTENSION_BYTES + 1);
        let numbered_names = (2..).map(|number| format!("{stem} ({number}){ending}"));
        let first = std::iter::once(format!("{stem}{ending}"));
        let name = first.chain(numbered_names).find(|name| !used.contains(name)).unwrap_or_default();
        used.insert(name.clone());
        Attachment { name, content }
    };
    files.map(own).collect()
}

/// Returns the content of the attachment with this name.
pub(super) fn entry(bytes: Vec<u8>, kind: Kind, wanted: &str) -> Result<Option<Vec<u8>>, Failure> {
    let files = if kind == Kind::Msg {
        let file = CfbReader::new(Cursor::new(bytes));
        let mut file = file.map_err(|error| broken(Kind::Msg, &error.to_string()))?;
        unique_names(outlook_files(&mut file).into_iter())
    } else {
        let mail = MessageParser::default().parse(&bytes).ok_or_else(|| broken(Kind::Eml, "it has no header"))?;
        unique_names(mail.attachments().take(MAX_ENTRIES).map(attached))
    };
    Ok(files.into_iter().find(|file| file.name == wanted).and_then(|file| file.content))
}

#[derive(Debug, Default)]
struct Message {
    subject: String,
    from: String,
    to: String,
    copy: String,
    date: String,
    text: String,
    files: Vec<Attachment>,
    has_cut_addresses: bool,
    has_many_files: bool,
}

impl Message {
    /// Emits the message, followed by its attachments unless only a listing or one attachment is requested.
    fn emit(self, kind: Kind, emitter: &mut Emitter<'_>) -> Result<(), Failure> {
        emitter.head(Some(&self.subject), None)?;
        if self.has_cut_addresses {
            emitter.leave_out(format!("it has more than {MAX_ENTRIES} senders or recipients"));
        }
        if self.has_many_files {
            emitter.leave_out(format!("more than {MAX_ENTRIES} files are attached to it"));
        }
        let header_lines =
            [("From", self.from), ("To", self.to), ("Cc", self.copy), ("Date", self.date), ("Subject", self.subject)];
        let header_lines = header_lines.iter().filter(|(_, value)| !value.trim().is_empty());
        let mut lines: Vec<String> = header_lines.map(|(name, value)| format!("{name}: {}", value.trim())).collect();
        lines.extend(self.files.iter().map(|file| format!("Attached file: {}", file.name)));
        emitter.text(DocumentPlace::Whole, format!("{}\n\n{}", lines.join("\n"), self.text.trim()), None, None)?;
        if emitter.wanted.listing || emitter.wanted.inner.is_some() {
            return Ok(());
        }
        let (count, mut unread) = (u32::try_from(self.files.len()).unwrap_or(u32::MAX), UnreadFiles::default());
        for Attachment { name, content } in self.files {
            let Some(content) = content else { continue };
            if let Some(failure) = archive::emit(&name, content, emitter)? {
                unread.add(&name, &failure);
            }
        }
        unread.into_result(kind, count)
    }
}

/// Formats a list of addresses. Returns true if the list was truncated.
fn address_list(address: Option<&Address<'_>>) -> (String, bool) {
    let one = |address: &mail_parser::Addr<'_>| match (address.name(), address.address()) {
        (Some(name), Some(address)) => format!("{name} <{address}>"),
        (name, address) => name.or(address).unwrap_or_default().to_owned(),
    };
    let Some(list) = address else { return Default::default() };
    let address_list: Vec<String> = list.iter().take(MAX_ENTRIES).map(one).collect();
    (address_list.join(", "), list.iter().nth(MAX_ENTRIES).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachment_names_are_unique_and_safe() {
        let files = ["a.pdf", "a.pdf", "../../etc/passwd", "a.pdf", "notes", "notes"];
        let files = files.map(|name| Attachment { name: name.to_owned(), content: None });
        let names: Vec<String> = unique_names(files.into_iter()).into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["a.pdf", "a (2).pdf", ".._.._etc_passwd", "a (3).pdf", "notes", "notes (2)"]);
    }

    #[test]
    fn each_attachment_is_read_by_its_name() {
        let part = |disposition: &str, name: &str, content: &str| {
            format!(
                "--x\r\nContent-Type: image/png\r\nContent-ID: <{content}>\r\n\
                 Content-Disposition: {disposition}; filename=\"{name}\"\r\n\r\n{content}\r\n"
            )
        };
        let long = format!("{}.png", "a".repeat(300));
        let parts = [("attachment", &*long, "one"), ("attachment", &long, "two"), ("inline", "sign.png", "three")];
        let parts: String = parts.map(|(disposition, name, content)| part(disposition, name, content)).concat();
        let mail = format!("Subject: a\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n{parts}--x--\r\n");
        let parsed = MessageParser::default().parse(mail.as_bytes()).unwrap();
        let names: Vec<String> =
            unique_names(parsed.attachments().map(attached)).into_iter().map(|file| file.name).collect();
        assert!(names.iter().all(|name| name.ends_with(".png") && name.len() <= NAME_BYTES), "{names:?}");
        let read = |name: &str| entry(mail.clone().into_bytes(), Kind::Eml, name).unwrap().map(String::from_utf8);
        let message: Vec<_> = names.iter().map(|name| read(name).map(Result::unwrap)).collect();
        // Inline images are not read, but attached ones are. Their numbering does not matter.
        assert_eq!(message, [Some("one".to_owned()), Some("two".to_owned()), None]);
    }
}
