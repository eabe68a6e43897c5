//! What a server wants of whoever logs in, as its refusals say: remembered beside its token until a login has asked for it.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use super::{files, refusal::Refusal, refusal::scopes};

/// Stored state of the logins of one server.
#[derive(Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct WantedLogins {
    /// Where its metadata is.
    metadata: Option<String>,
    /// Scopes of the next login.
    scopes: Vec<String>,
    /// Scopes of the last login.
    asked: Vec<String>,
    /// Set if the next login asks for nothing that an earlier one got: the last was told that there is no such scope.
    anew: bool,
    /// Scopes that do not exist, as logins were told: never asked for again.
    vain: Vec<String>,
}

/// Remedy for a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Remedy {
    /// To log in, for these scopes where there are some.
    Login(Vec<String>),
    /// Nothing that we could do: it wants these scopes, and a login has asked for them.
    None(Vec<String>),
}

impl WantedLogins {
    /// Reads the stored state. Nothing, where that cannot be read: the next refusal says it again.
    pub(super) fn read(path: &Path) -> Self {
        fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// Remembers it.
    pub(super) fn write(&self, path: &Path) -> std::io::Result<()> {
        files::write(path, &serde_json::to_vec(self)?)
    }

    /// A server at this address has refused to answer. `is_known` says whether there is a token of it.
    pub(super) fn refused(&mut self, refusal: &Refusal, url: &str, is_known: bool) -> Remedy {
        let said = refusal.said(url);
        if said.metadata.is_some() || !refusal.knows_us {
            self.metadata = said.metadata;
        }
        let is_tried = |scope: &String| self.asked.contains(scope) || self.vain.contains(scope);
        if refusal.knows_us && said.scopes.iter().all(is_tried) {
            return Remedy::None(said.scopes);
        }
        let wanted = without(said.scopes, &self.vain);
        let before = if is_known { std::mem::take(&mut self.scopes) } else { Vec::new() };
        // What is wanted now comes first: of too many the last are left out.
        self.scopes = union(&wanted, &before);
        Remedy::Login(wanted)
    }

    /// Scopes that the next login asks for, where `got` is what the token is good for, and `first` what a first login
    /// would ask for.
    pub(super) fn asks_for(&self, got: &[String], first: &[String]) -> Vec<String> {
        let got = if self.anew { &[] } else { got };
        let [got, first] = [got, first].map(|scopes| without(scopes.to_vec(), &self.vain));
        union(&union(&self.scopes, &got), &first)
    }

    /// A login has asked for these scopes, and went well.
    pub(super) fn logged_in(&mut self, asked: Vec<String>) {
        let (metadata, vain) = (self.metadata.take(), std::mem::take(&mut self.vain));
        *self = Self { metadata, vain, asked, ..Self::default() };
    }

    /// A login was told that what it asked for is not there.
    pub(super) fn asked_in_vain(&mut self) {
        self.vain = union(&std::mem::take(&mut self.scopes), &self.vain);
        self.anew = true;
    }

    /// A refusal that would say all this.
    pub(super) fn challenge(&self) -> Option<String> {
        let metadata = self.metadata.as_ref().map(|address| {
            let address = address.replace('\\', "\\\\").replace('"', "\\\"");
            format!("resource_metadata=\"{address}\"")
        });
        let scopes = (!self.scopes.is_empty()).then(|| format!("scope=\"{}\"", self.scopes.join(" ")));
        let said: Vec<String> = metadata.into_iter().chain(scopes).collect();
        (!said.is_empty()).then(|| format!("Bearer {}", said.join(", ")))
    }
}

fn without(mut scopes: Vec<String>, others: &[String]) -> Vec<String> {
    scopes.retain(|scope| !others.contains(scope));
    scopes
}

fn union(one: &[String], other: &[String]) -> Vec<String> {
    scopes(one.iter().chain(other).map(String::as_str))
}
