//! API keys that are renewed: read when the first request needs one, and again after the server has refused it.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use agentd_core::mutex::lock;
use futures_util::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};

/// A key, or the reason why it could not be read. The reason is a message for users, without any of the source's
/// content.
type ReadKey = Result<SecretString, String>;

/// API key that can be read again. Shared by all models of an account, so that their requests share one reading.
pub struct RenewableKey {
    /// Reads the key from its source, within a time limit.
    read: Box<dyn Fn(Duration) -> BoxFuture<'static, ReadKey> + Send + Sync>,
    state: Mutex<KeyState>,
    /// Held while the key is read, so that the source is read once for all waiting requests.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct KeyState {
    /// The current key, after its predecessor, which servers may still repeat in their messages.
    keys: Vec<SecretString>,
    /// Number of readings that have ended.
    readings: u64,
    /// Message of the last reading, if it failed.
    failure: Option<String>,
}

/// Shows nothing, because the source may contain a secret.
impl fmt::Debug for RenewableKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RenewableKey")
    }
}

impl RenewableKey {
    /// Creates a key with its current value, if it is known already. `read` reads it from its source, within a time
    /// limit; its error is a message for users, without any of the source's content.
    pub fn new(
        current: Option<SecretString>,
        read: impl Fn(Duration) -> BoxFuture<'static, ReadKey> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let state = Mutex::new(KeyState { keys: current.into_iter().collect(), ..KeyState::default() });
        Arc::new(Self { read: Box::new(read), state, reading: tokio::sync::Mutex::default() })
    }

    /// Returns the current key. Reads the source if there is no key yet, or if the current one is the refused one; the
    /// source may still contain that one. Requests that wait for a reading share its result.
    ///
    /// # Errors
    /// Fails if the key cannot be read. The error is a message for users.
    pub(crate) async fn get(&self, refused: Option<&SecretString>, limit: Duration) -> ReadKey {
        let readings_before = lock(&self.state).readings;
        let _reading = self.reading.lock().await;
        let shared = lock(&self.state).since(readings_before, refused);
        if let Some(shared) = shared {
            return shared;
        }
        let read = (self.read)(limit).await;
        let mut state = lock(&self.state);
        state.readings += 1;
        state.failure = read.as_ref().err().cloned();
        if let Ok(key) = &read
            && !state.is_current(key)
        {
            state.keys = state.keys.pop().into_iter().chain([key.clone()]).collect();
        }
        read
    }

    /// Returns the keys that a server may repeat in its messages.
    pub fn known(&self) -> Vec<SecretString> {
        lock(&self.state).keys.clone()
    }
}

impl KeyState {
    fn is_current(&self, key: &SecretString) -> bool {
        self.keys.last().is_some_and(|current| current.expose_secret() == key.expose_secret())
    }

    /// Returns the current key or the result of another request's reading, if the source need not be read again.
    fn since(&self, readings: u64, refused: Option<&SecretString>) -> Option<ReadKey> {
        let current = self.keys.last().cloned();
        if refused.is_none_or(|refused| !self.is_current(refused)) && current.is_some() {
            return current.map(Ok);
        }
        (self.readings != readings).then(|| self.failure.clone().map(Err).or(current.map(Ok)))?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    /// Returns a key whose source has these contents in turn, and the number of its readings.
    fn key(
        current: Option<&str>,
        contents: &'static [Result<&'static str, &'static str>],
    ) -> (Arc<RenewableKey>, Arc<AtomicUsize>) {
        let readings = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&readings);
        let read = move |_| -> BoxFuture<'static, ReadKey> {
            let content = contents[count.fetch_add(1, Ordering::SeqCst)];
            Box::pin(async move {
                tokio::task::yield_now().await;
                content.map(SecretString::from).map_err(str::to_owned)
            })
        };
        (RenewableKey::new(current.map(SecretString::from), read), readings)
    }

    fn text(read: &ReadKey) -> Result<&str, &str> {
        read.as_ref().map(ExposeSecret::expose_secret).map_err(String::as_str)
    }

    #[tokio::test]
    async fn waiting_requests_share_one_reading() {
        let (shared, readings) = key(None, &[Ok("one"), Ok("two"), Ok("two")]);
        let (a, b) = tokio::join!(shared.get(None, LIMIT), shared.get(None, LIMIT));
        assert_eq!((text(&a), text(&b)), (Ok("one"), Ok("one")));
        let old = a.unwrap();
        let (a, b) = tokio::join!(shared.get(Some(&old), LIMIT), shared.get(Some(&old), LIMIT));
        assert_eq!((text(&a), text(&b)), (Ok("two"), Ok("two")));
        // A request that was in flight during the renewal is refused later.
        assert_eq!(text(&shared.get(Some(&old), LIMIT).await), Ok("two"));
        assert_eq!(readings.load(Ordering::SeqCst), 2);
        let new = a.unwrap();
        let (a, b) = tokio::join!(shared.get(Some(&new), LIMIT), shared.get(Some(&new), LIMIT));
        assert_eq!((text(&a), text(&b)), (Ok("two"), Ok("two")), "the source is unchanged");
        assert_eq!(readings.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn failed_reading_is_shared_but_not_remembered() {
        let (shared, readings) = key(None, &[Err("no"), Ok("one"), Err("gone")]);
        let (a, b) = tokio::join!(shared.get(None, LIMIT), shared.get(None, LIMIT));
        assert_eq!((text(&a), text(&b), readings.load(Ordering::SeqCst)), (Err("no"), Err("no"), 1));
        let read = shared.get(None, LIMIT).await;
        assert_eq!(text(&read), Ok("one"));
        assert_eq!(text(&shared.get(Some(&read.unwrap()), LIMIT).await), Err("gone"));
        assert_eq!(text(&shared.get(None, LIMIT).await), Ok("one"), "the old key stays the current one");
    }

    #[tokio::test]
    async fn cancelled_reading_is_started_again_by_the_next_request() {
        let (shared, readings) = key(Some("old"), &[Ok("lost"), Ok("new")]);
        let old = SecretString::from("old");
        {
            let mut cancelled = Box::pin(shared.get(Some(&old), LIMIT));
            assert!(futures_util::poll!(&mut cancelled).is_pending());
        }
        assert_eq!(text(&shared.get(Some(&old), LIMIT).await), Ok("new"));
        assert_eq!(readings.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn last_key_stays_known() {
        let (shared, _) = key(Some("0"), &[Ok("1"), Ok("2")]);
        for number in 0..2 {
            shared.get(Some(&SecretString::from(number.to_string())), LIMIT).await.unwrap();
        }
        let known: Vec<String> = shared.known().iter().map(|key| key.expose_secret().to_owned()).collect();
        assert_eq!(known, ["1", "2"]);
    }
}
