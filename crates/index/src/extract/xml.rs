//! XML as a tree, for formats that are an archive of a few files of it. Names are without their prefixes.

use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};

/// Elements within elements that are kept apart; what is deeper counts as text of the last one.
const DEEP: usize = 200;

/// An element.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Node {
    /// Without its prefix.
    pub(super) name: String,
    attributes: Vec<(String, String)>,
    pub(super) children: Vec<Child>,
}

/// Content of an element.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Child {
    /// Text, with its entities resolved.
    Text(String),
    /// An element.
    Node(Node),
}

impl Node {
    /// Value of an attribute, whatever its prefix.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The elements in it.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Self> {
        self.children.iter().filter_map(|child| match child {
            Child::Node(node) => Some(node),
            Child::Text(_) => None,
        })
    }

    /// The first element of that name in it.
    pub(super) fn node(&self, name: &str) -> Option<&Self> {
        self.nodes().find(|node| node.name == name)
    }

    /// The first element of that name in it or anywhere below.
    pub(super) fn find(&self, name: &str) -> Option<&Self> {
        self.nodes().find_map(|node| if node.name == name { Some(node) } else { node.find(name) })
    }

    /// All elements of that name below it, in order; not those within one of them.
    pub(super) fn all(&self, name: &str) -> Vec<&Self> {
        self.nodes().flat_map(|node| if node.name == name { vec![node] } else { node.all(name) }).collect()
    }

    /// All text in it.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.add_text(&mut text);
        text
    }

    fn add_text(&self, text: &mut String) {
        for child in &self.children {
            match child {
                Child::Text(more) => text.push_str(more),
                Child::Node(node) => node.add_text(text),
            }
        }
    }

    fn begun(tag: &BytesStart<'_>) -> Self {
        let mut attributes = tag.attributes();
        let attributes = attributes.with_checks(false).flatten().map(|attribute| {
            let raw = attribute.value.into_owned();
            let value = quick_xml::escape::unescape(&raw).map(std::borrow::Cow::into_owned);
            (attribute.key.local_name().as_ref().to_owned(), value.unwrap_or(raw))
        });
        Self { name: tag.local_name().as_ref().to_owned(), attributes: attributes.collect(), children: Vec::new() }
    }
}

/// The tree of a text; its root is an element without a name that holds the one of the text.
///
/// # Errors
/// The damage, in words of the parser. What was read before it is not told.
pub(super) fn parse(text: &str) -> Result<Node, String> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = false;
    let mut open = vec![Node::default()];
    // Elements that are open and too deep to be kept.
    let mut beyond = 0_usize;
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(_) if open.len() > DEEP => beyond += 1,
            Event::Start(tag) => open.push(Node::begun(&tag)),
            Event::Empty(tag) => add(&mut open, Child::Node(Node::begun(&tag))),
            Event::End(_) if beyond > 0 => beyond -= 1,
            Event::End(_) => close(&mut open),
            Event::Text(text) => {
                let text = text.replace("\r\n", "\n");
                add(&mut open, Child::Text(text));
            }
            Event::CData(text) => add(&mut open, Child::Text(text.to_string())),
            Event::GeneralRef(entity) => {
                let name = entity.to_string();
                let letters = quick_xml::escape::unescape(&format!("&{name};")).map(std::borrow::Cow::into_owned);
                // Those that a document defines itself are left as they are: they may stand for any amount of text.
                add(&mut open, Child::Text(letters.unwrap_or_else(|_| html_entity(&name))));
            }
            Event::Eof => break,
            _ => {}
        }
    }
    while open.len() > 1 {
        close(&mut open);
    }
    Ok(open.pop().unwrap_or_default())
}

fn html_entity(name: &str) -> String {
    if name == "nbsp" { " ".to_owned() } else { format!("&{name};") }
}

fn add(open: &mut [Node], child: Child) {
    let Some(node) = open.last_mut() else { return };
    match (node.children.last_mut(), child) {
        (Some(Child::Text(text)), Child::Text(more)) => text.push_str(&more),
        (_, child) => node.children.push(child),
    }
}

fn close(open: &mut Vec<Node>) {
    if open.len() > 1
        && let Some(done) = open.pop()
    {
        add(open, Child::Node(done));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_what_the_text_says() {
        let tree =
            parse("<?xml version='1.0'?><a:r x:k='1 &lt; 2'><b>Q &amp; A</b>&#8364;<c/><![CDATA[<x>]]></a:r>").unwrap();
        let root = tree.node("r").unwrap();
        assert_eq!(root.attribute("k"), Some("1 < 2"));
        assert_eq!((root.text().as_str(), root.nodes().count()), ("Q & A€<x>", 2));
        let deep = "<d>".repeat(5000) + "text" + &"</d>".repeat(5000);
        assert_eq!(parse(&deep).unwrap().text(), "text");
        assert_eq!(parse("<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>").unwrap().text(), "&e;");
        assert!(parse("<a").is_err());
    }
}
