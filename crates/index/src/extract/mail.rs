//! Mail: who wrote what to whom, the text, and which files are attached.

use std::io::Cursor;

use mail_parser::{Address, MessageParser, MimeHeaders as _};
use office_oxide::cfb::CfbReader;

use super::{Teller, broken, html};
use crate::{document::DocumentPlace, failure::Failure, kind::Kind};

/// People, and files, that are named.
const MOST: usize = 200;

/// A message as mail servers keep it.
pub(super) fn message(bytes: &[u8], teller: &mut Teller<'_>) -> Result<(), Failure> {
    let mail = MessageParser::default().parse(bytes).ok_or_else(|| broken(Kind::Eml, "it has no header"))?;
    let mut told = Message {
        subject: mail.subject().unwrap_or_default().to_owned(),
        from: people(mail.from()),
        to: people(mail.to()),
        copy: people(mail.cc()),
        date: mail.date().map(|date| date.to_rfc822()).unwrap_or_default(),
        ..Message::default()
    };
    let texts = (0..mail.text_body_count()).filter_map(|at| mail.body_text(at));
    told.text = texts.collect::<Vec<_>>().join("\n\n");
    // Many have both, and some only the one for browsers, which the library would tell without its tables and lists.
    let pages: Vec<_> = (0..mail.html_body_count()).filter_map(|at| mail.body_html(at)).collect();
    let is_page = mail.text_bodies().all(|part| part.is_text_html());
    if is_page && !pages.is_empty() {
        told.text = html::markdown(&pages.join("\n")).map_err(|why| broken(Kind::Eml, &why))?;
    }
    let names = mail.attachments().map(|part| match part.message() {
        Some(inner) => inner.subject().map_or_else(|| "a message".to_owned(), |about| format!("message {about:?}")),
        None => part.attachment_name().unwrap_or("a file without a name").to_owned(),
    });
    told.files = names.take(MOST).collect();
    told.tell(teller)
}

/// A message of Outlook.
pub(super) fn outlook(bytes: Vec<u8>, teller: &mut Teller<'_>) -> Result<(), Failure> {
    let failure = |error: office_oxide::cfb::CfbError| broken(Kind::Msg, &error.to_string());
    let mut file = CfbReader::new(Cursor::new(bytes)).map_err(failure)?;
    let mut told = Message {
        subject: property(&mut file, "", 0x0037),
        from: property(&mut file, "", 0x0c1a),
        to: property(&mut file, "", 0x0e04),
        copy: property(&mut file, "", 0x0e03),
        text: property(&mut file, "", 0x1000),
        ..Message::default()
    };
    if told.text.trim().is_empty() {
        // Its other form, in the encoding that the page says.
        let page = file.open_stream_by_path("__substg1.0_10130102").unwrap_or_default();
        told.text = html::markdown(&html::decoded(&page)).map_err(|why| broken(Kind::Msg, &why))?;
    }
    for number in 0..MOST {
        let folder = format!("__attach_version1.0_#{number:08X}/");
        let names = [0x3707, 0x3704, 0x3001].map(|name| property(&mut file, &folder, name));
        match names.into_iter().find(|name| !name.trim().is_empty()) {
            Some(name) => told.files.push(name),
            None => break,
        }
    }
    told.tell(teller)
}

/// A text of a message of Outlook, by its number; empty where there is none.
fn property(file: &mut CfbReader<Cursor<Vec<u8>>>, folder: &str, number: u16) -> String {
    if let Ok(bytes) = file.open_stream_by_path(&format!("{folder}__substg1.0_{number:04X}001F")) {
        return encoding_rs::UTF_16LE.decode_without_bom_handling(&bytes).0.trim_end_matches('\0').to_owned();
    }
    let bytes = file.open_stream_by_path(&format!("{folder}__substg1.0_{number:04X}001E")).unwrap_or_default();
    super::encoding::decode(&bytes, None).trim_end_matches('\0').to_owned()
}

/// A message as it is told.
#[derive(Debug, Default)]
struct Message {
    subject: String,
    from: String,
    to: String,
    copy: String,
    date: String,
    text: String,
    files: Vec<String>,
}

impl Message {
    fn tell(self, teller: &mut Teller<'_>) -> Result<(), Failure> {
        teller.head(Some(&self.subject), None)?;
        let said =
            [("From", self.from), ("To", self.to), ("Cc", self.copy), ("Date", self.date), ("Subject", self.subject)];
        let mut lines: Vec<String> = said
            .into_iter()
            .filter(|(_, value)| !value.trim().is_empty())
            .map(|(name, v)| format!("{name}: {}", v.trim()))
            .collect();
        lines.extend(self.files.iter().map(|file| format!("Attached file: {file}")));
        teller.text(DocumentPlace::Whole, format!("{}\n\n{}", lines.join("\n"), self.text.trim()), None)
    }
}

fn people(address: Option<&Address<'_>>) -> String {
    let one = |address: &mail_parser::Addr<'_>| match (address.name(), address.address()) {
        (Some(name), Some(address)) => format!("{name} <{address}>"),
        (name, address) => name.or(address).unwrap_or_default().to_owned(),
    };
    address.map(|list| list.iter().take(MOST).map(one).collect::<Vec<_>>().join(", ")).unwrap_or_default()
}
