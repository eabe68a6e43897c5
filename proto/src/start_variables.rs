//! Variables for models and keys with which a daemon was started, sent to clients without their values. A client that
//! has the same variable can determine if the values are equal, but learns nothing else about the daemon's value.

use std::{collections::BTreeMap, fmt};

use sha2::{Digest as _, Sha256};

use crate::v1;

/// Minimum size of a salt, in bytes.
const MIN_SALT_BYTES: usize = 16;

/// Names of variables with digests of their values.
#[derive(Clone, PartialEq, Eq)]
pub struct StartVariables {
    salt: Vec<u8>,
    digests: BTreeMap<String, Vec<u8>>,
}

/// Result of comparing a client's variable with the daemon's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VariableMatch {
    /// The daemon has the same value.
    Same,
    /// The daemon has another value.
    Other,
    /// The daemon does not have the variable.
    Missing,
}

impl StartVariables {
    /// Selects the variables for models and keys from this environment. The salt must be random and different in each
    /// daemon.
    pub fn new<'a>(salt: Vec<u8>, environment: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let relevant = environment.into_iter().filter(|(name, value)| is_relevant(name) && !value.trim().is_empty());
        let digests = relevant.map(|(name, value)| (name.to_owned(), digest(&salt, name, value))).collect();
        Self { salt, digests }
    }

    /// Creates the value from a daemon's message. Returns `None` if the salt is missing or too short.
    pub(crate) fn received(salt: Vec<u8>, digests: Vec<v1::VariableDigest>) -> Option<Self> {
        let digests = digests.into_iter().map(|variable| (variable.name, variable.digest)).collect();
        (salt.len() >= MIN_SALT_BYTES).then_some(Self { salt, digests })
    }

    /// Returns the salt and the digests by name, for the wire.
    pub fn sent(&self) -> (Vec<u8>, Vec<v1::VariableDigest>) {
        let digests = self.digests.iter();
        let digests = digests.map(|(name, digest)| v1::VariableDigest { name: name.clone(), digest: digest.clone() });
        (self.salt.clone(), digests.collect())
    }

    /// Compares a variable of the client with the daemon's.
    pub fn compare(&self, name: &str, value: &str) -> VariableMatch {
        match self.digests.get(name) {
            None => VariableMatch::Missing,
            Some(daemon_digest) if *daemon_digest == digest(&self.salt, name, value) => VariableMatch::Same,
            Some(_) => VariableMatch::Other,
        }
    }
}

/// Shows names only: with the salt, short values can be guessed from their digests.
impl fmt::Debug for StartVariables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.digests.keys()).finish()
    }
}

/// Returns true if a variable with this name may configure a model or contain an API key.
fn is_relevant(name: &str) -> bool {
    name.starts_with("MODEL_") || name.ends_with("_BASE_URL") || name.ends_with("_API_KEY")
}

fn digest(salt: &[u8], name: &str, value: &str) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(salt);
    hash.update(name.as_bytes());
    hash.update([0]);
    hash.update(value.trim().as_bytes());
    hash.finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(salt: &[u8], environment: &[(&str, &str)]) -> Option<StartVariables> {
        let (salt, digests) = StartVariables::new(salt.to_vec(), environment.iter().copied()).sent();
        StartVariables::received(salt, digests)
    }

    #[test]
    fn variables_are_compared_by_digest() {
        let environment = [("MODEL_BASIC_API_KEY", "s3cret-key "), ("HOME", "/home/me"), ("X_API_KEY", "")];
        let known = received(&[7; 16], &environment).unwrap();
        assert_eq!(known.compare("MODEL_BASIC_API_KEY", "s3cret-key"), VariableMatch::Same);
        assert_eq!(known.compare("MODEL_BASIC_API_KEY", "s3cret-kex"), VariableMatch::Other);
        assert_eq!(known.compare("MODEL_BASIC_BASE_URL", "s3cret-key"), VariableMatch::Missing);
        assert_eq!(known.compare("X_API_KEY", "x"), VariableMatch::Missing, "an empty variable is not set");
        let sent = format!("{:?}", known.sent());
        assert!(!sent.contains("s3cret") && !sent.contains("HOME"), "{sent}");
        assert_eq!(format!("{known:?}"), "{\"MODEL_BASIC_API_KEY\"}");
    }

    #[test]
    fn digests_differ_by_daemon_and_variable_name() {
        let digest = |salt: u8, name: &str| digest(&[salt; 16], name, "value");
        assert_ne!(digest(1, "A_API_KEY"), digest(2, "A_API_KEY"));
        assert_ne!(digest(1, "A_API_KEY"), digest(1, "B_API_KEY"));
        assert_eq!(received(&[], &[("A_API_KEY", "value")]), None, "an older daemon sends no salt");
    }
}
