//! Starts turns in new sessions, and turns whose input has parts in addition to text. Parts are checked before anything
//! is stored, so that a rejected start stores nothing.

use agentd_core::{
    error::ErrorKind,
    files::PreparedPicture,
    folder::Mounts,
    ids::SessionId,
    input::{
        AttachedPart, CheckedPicture, InputPart, LineRange, MAX_INPUT_PARTS, MAX_PART_BYTES, MAX_SELECTION_BYTES,
        MAX_SELECTION_URI, PICTURE_TYPES, PictureData, Selection,
    },
    session::{SessionMode, SessionSettings},
    turn::IfBusy,
};

use crate::{
    attachments,
    client::TurnStart,
    config::Ports,
    error::{EngineError, Result, refuse_if},
    front::Engine,
    session::{
        SessionHandle, StartedTurn,
        registry::worktree,
        settings::{mode_change_entry, with_checked_model, with_folders},
    },
};

/// Parts of an input that were checked but are not yet stored.
#[derive(Debug, Default)]
pub struct CheckedParts(Vec<CheckedPart>);

#[derive(Debug)]
enum CheckedPart {
    Picture(CheckedPicture),
    File { name: String, content: Vec<u8> },
    Selection(Selection),
}

impl Engine {
    /// Starts a turn in a new session, which is stored together with the turn's start. The input may have parts in
    /// addition to text. A rejected start leaves no session behind.
    ///
    /// # Errors
    /// Same as [`SessionHandle::start_turn`], and if the parts cannot be stored.
    pub async fn start_session_with(
        &self,
        settings: SessionSettings,
        start: impl Into<TurnStart>,
        parts: CheckedParts,
    ) -> Result<(SessionHandle, StartedTurn)> {
        let mut start = start.into();
        let (id, settings) = self.prepare_session(settings, &start.start.client).await?;
        let mounts = settings.mounts();
        let session = self.registry.new_session(id, settings).await;
        let started = async {
            let session = session.as_ref().map_err(EngineError::clone)?;
            if parts.0.iter().any(CheckedPart::has_file) {
                self.shared.ports.workspaces.open(id, mounts).await?;
            }
            self.store_parts(id, parts, &mut start.start.attached).await?;
            session.start_turn(start).await
        };
        let started = started.await;
        if started.is_err() {
            if let Ok(session) = &session {
                // The error may already have ended the actor.
                let _ = session.close().await;
            }
            remove_unstored(&self.shared.ports, id).await;
        }
        Ok((session?, started?))
    }

    /// Returns the ID and the checked settings of a new session, after creating its worktree. A mode other than the
    /// default is recorded in the audit log, and takes effect only if that succeeds.
    ///
    /// # Errors
    /// Fails if the settings name a model or folders that are not usable.
    pub(super) async fn prepare_session(
        &self,
        settings: SessionSettings,
        client: &str,
    ) -> Result<(SessionId, SessionSettings)> {
        let parts = &self.shared.ports;
        let settings = with_checked_model(&*parts.models, settings)?;
        let project = Mounts::from(settings.project.clone());
        let folders = with_folders(&*parts.workspaces, project, settings.folders.clone()).await?;
        let (id, settings) = (SessionId::generate(), SessionSettings { folders, ..settings });
        if settings.mode != SessionMode::default() {
            parts.audit.record(mode_change_entry(id, parts.clock.now(), settings.mode, client)).await?;
        }
        Ok((id, worktree::with_worktree(parts, id, settings).await?))
    }

    /// Starts a turn whose input may have parts in addition to text.
    ///
    /// # Errors
    /// Same as [`SessionHandle::start_turn`], and if the parts cannot be stored.
    pub async fn start_turn_with(
        &self,
        session: &SessionHandle,
        start: impl Into<TurnStart>,
        parts: CheckedParts,
    ) -> Result<StartedTurn> {
        let mut start = start.into();
        if parts.0.is_empty() {
            return session.start_turn(start).await;
        }
        // The lease keeps the session loaded until the parts are stored and announced.
        let _lease = session.lease().await?;
        let view = session.show().await?;
        match (view.live_turn, start.start.if_busy) {
            (Some(turn), IfBusy::Refuse) => {
                let hint = "wait for it to end, cancel it, or queue this one";
                return Err(EngineError::busy(format!("turn {turn} of this session is open"), hint));
            }
            (Some(_), IfBusy::Steer) => {
                let message = "parts cannot be added to a running turn, only text".to_owned();
                return Err(EngineError::invalid(message, "queue it as a separate turn"));
            }
            _ => {}
        }
        let settings = view.session.settings;
        let files_of = settings.files_of(session.id());
        if parts.0.iter().any(CheckedPart::has_file) {
            self.shared.ports.workspaces.open(files_of, settings.mounts()).await?;
        }
        let mut stored = Vec::new();
        let started = async {
            self.store_parts(files_of, parts, &mut stored).await?;
            start.start.attached.clone_from(&stored);
            session.start_turn(start).await
        }
        .await;
        // After an error of these kinds, the turn's start may be in the journal.
        let is_uncertain = |error: &EngineError| {
            matches!(error.kind(), ErrorKind::Storage | ErrorKind::ShuttingDown | ErrorKind::Internal)
        };
        if started.as_ref().is_err_and(|error| !is_uncertain(error)) {
            // The files were never announced.
            for part in stored {
                let AttachedPart::File { path, .. } = part else { continue };
                if let Err(error) = self.shared.ports.workspaces.remove_upload(files_of, path).await {
                    tracing::warn!(session = %files_of, "could not remove a file of a refused turn: {error}");
                }
            }
        }
        started
    }

    /// Checks the parts of an input, before anything is stored.
    ///
    /// # Errors
    /// Fails if there are too many parts, or if a part is empty, too large, or an invalid picture.
    pub async fn check_parts(&self, parts: Vec<InputPart>) -> Result<CheckedParts> {
        let (count, limit) = (parts.len(), MAX_INPUT_PARTS);
        let message = || format!("the input has {count} parts besides its text; at most {limit} are allowed");
        refuse_if(count > limit, message, "upload the files with Sessions.Upload, and refer to them")?;
        let mut checked = Vec::with_capacity(parts.len());
        for (number, part) in (1..).zip(parts) {
            let label = format!("part {number}");
            checked.push(match part {
                InputPart::Picture(picture) => CheckedPart::Picture(self.check_picture(&label, picture).await?),
                InputPart::File { name, content } => {
                    check_file(&label, &name, &content)?;
                    CheckedPart::File { name, content }
                }
                InputPart::Selection(selection) => {
                    check_selection(&label, &selection)?;
                    CheckedPart::Selection(selection)
                }
            });
        }
        Ok(CheckedParts(checked))
    }

    /// Prepares a client's picture for models. `label` names the picture in errors.
    ///
    /// # Errors
    /// Fails if the picture is empty, too large, of an unsupported type, damaged, or not a picture.
    pub async fn check_picture(&self, label: &str, picture: PictureData) -> Result<CheckedPicture> {
        let PictureData { name, media_type, content } = picture;
        let supported = PICTURE_TYPES.iter().find(|(known, _)| *known == media_type);
        let Some((_, ending)) = supported else {
            let shown: String = media_type.chars().take(60).collect();
            let supported: Vec<&str> = PICTURE_TYPES.iter().map(|(known, _)| *known).collect();
            let message = format!("{label} has the picture type {shown:?}, which models do not accept");
            return Err(EngineError::invalid(message, format!("convert it to one of {}", supported.join(", "))));
        };
        let name = name.unwrap_or_else(|| format!("picture.{ending}"));
        check_file(label, &name, &content)?;
        let prepared = self.prepare_picture(label, &content).await?;
        Ok(CheckedPicture { name, content, prepared })
    }

    async fn prepare_picture(&self, label: &str, content: &[u8]) -> Result<PreparedPicture> {
        let Some(pictures) = &self.shared.ports.pictures else {
            let message = format!("{label} is a picture, and this daemon was built without picture support");
            return Err(EngineError::new(ErrorKind::Configuration, message)
                .with_hint("use a build with the feature `documents`"));
        };
        match pictures.prepare(content, None).await {
            Ok(Some(ready)) => Ok(ready),
            Ok(None) => Err(EngineError::invalid(
                format!("{label} is declared as a picture, but its content is not a picture"),
                "send the unmodified bytes of the file, or send it as a file",
            )),
            Err(error) => {
                let message = format!("{label} is an unreadable picture: {error}");
                let hint = error.hint().unwrap_or("save it again, or send it as a file").to_owned();
                Err(EngineError::invalid(message, hint))
            }
        }
    }

    /// Stores the parts in the session's files, appending each to `kept`.
    async fn store_parts(&self, session: SessionId, parts: CheckedParts, stored: &mut Vec<AttachedPart>) -> Result<()> {
        let workspaces = &self.shared.ports.workspaces;
        for part in parts.0 {
            stored.push(match part {
                CheckedPart::Picture(CheckedPicture { name, content, prepared }) => {
                    let path = workspaces.add_upload(session, name, content).await?;
                    let picture = attachments::store_picture(&**workspaces, session, prepared).await?;
                    AttachedPart::File { path, picture: Some(picture) }
                }
                CheckedPart::File { name, content } => {
                    let receipt = attachments::store_upload(&self.shared.ports, session, name, content).await?;
                    AttachedPart::File { path: receipt.path, picture: receipt.picture }
                }
                CheckedPart::Selection(selection) => AttachedPart::Selection(selection),
            });
        }
        Ok(())
    }
}

impl CheckedPart {
    fn has_file(&self) -> bool {
        !matches!(self, Self::Selection(_))
    }
}

fn check_file(label: &str, name: &str, content: &[u8]) -> Result<()> {
    refuse_if(name.trim().is_empty(), || format!("{label} is a file without a name"), "name it")?;
    refuse_if(content.is_empty(), || format!("{label} is empty"), "omit it, or send its content")?;
    let size = || format!("{label} has {} bytes; at most {} MiB are allowed", content.len(), MAX_PART_BYTES >> 20);
    refuse_if(content.len() > MAX_PART_BYTES, size, "upload it with Sessions.Upload before the turn")
}

fn check_selection(label: &str, Selection { uri, lines, text }: &Selection) -> Result<()> {
    let unnamed = || format!("{label} is a selection without a `uri`");
    refuse_if(uri.trim().is_empty(), unnamed, "set `uri` to its path or address")?;
    let length = || format!("{label} has an address of {} bytes; at most {MAX_SELECTION_URI} are allowed", uri.len());
    refuse_if(uri.len() > MAX_SELECTION_URI, length, "give a path, or a shorter name")?;
    refuse_if(text.trim().is_empty(), || format!("{label} is an empty selection"), "omit it, or send its text")?;
    let (bytes, limit) = (text.len(), MAX_SELECTION_BYTES >> 10);
    let size = || format!("{label} has {bytes} bytes of text; at most {limit} KiB are allowed");
    refuse_if(bytes > MAX_SELECTION_BYTES, size, "send it as a file; the model reads what it needs")?;
    match lines {
        Some(LineRange { first, last }) if *first == 0 || last < first => {
            let message = format!("{label} has the invalid line range {first} to {last}");
            Err(EngineError::invalid(message, "lines are counted from 1, and the first must not exceed the last"))
        }
        _ => Ok(()),
    }
}

/// Removes files of a session that was never stored.
async fn remove_unstored(ports: &Ports, session: SessionId) {
    // If the journal cannot be read, it is unknown whether the session exists.
    if let Ok(None) = ports.store.session(session).await {
        let _ = ports.workspaces.remove(session).await;
        worktree::release_worktrees(ports, session).await;
    }
}
