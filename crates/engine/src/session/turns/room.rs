//! Room for what is said: an input that does not fit into the window is kept in a file before anybody is told that it was
//! taken.

use agentd_context::{Next, meter, tokens::estimate};
use agentd_core::{
    client_tool::ClientTool,
    error::ErrorKind,
    event::EventKind,
    item::{Item, ItemBody},
    model::ModelInfo,
    turn::StartTurn,
};

use crate::{
    attachments::Attachment,
    catalog::Finds,
    error::EngineError,
    large_input::{self, InputRoom, OccupiedRoom, UserInput},
    mentions::Mentions,
    session::actor::{Actor, Fault},
    turn::route::SlotChoice,
};

/// Tokens of an input that is told of a turn which never ran and that cannot be kept.
const CUT: u64 = 1000;

/// The surroundings of an input: its reader, and the notices in front of it.
#[derive(Clone, Copy)]
pub(crate) struct InFront<'a> {
    pub(crate) choice: SlotChoice,
    pub(crate) mentions: &'a Mentions,
    pub(crate) handed: &'a [Attachment],
    pub(crate) told: &'a [ItemBody],
    /// About how many tokens a turn that did not begin brings besides.
    pub(crate) brought: u64,
}

/// About how many tokens a turn that did not begin has for itself: instructions, and tools of its client.
pub(crate) fn brought(start: &StartTurn) -> u64 {
    let instructions = start.options.instructions.as_deref().map_or(0, estimate);
    let tool = |tool: &ClientTool| estimate(&tool.description) + estimate(&tool.parameters.to_string());
    instructions + start.tools.iter().map(tool).sum::<u64>()
}

impl Actor {
    /// The input as the model is to see it: whole where it fits, else its beginning, with the file that has all of it.
    ///
    /// # Errors
    /// When it has to be whole and does not fit, and when the disk does not take it.
    pub(crate) async fn fit(
        &mut self,
        input: UserInput,
        has_to_be_whole: bool,
        front: InFront<'_>,
    ) -> Result<UserInput, Fault> {
        let slot = front.choice.slot;
        let model = self.model(slot);
        if large_input::surely_fits(input.text.len(), self.least_window(front.choice), model.info().embedded) {
            return Ok(input);
        }
        self.look_up(front.choice).await;
        let (info, window) = (model.info(), self.least_window(front.choice));
        if large_input::surely_fits(input.text.len(), window, info.embedded) {
            return Ok(input);
        }
        let pictures = self.has_pictures(front.handed);
        let finds = self.finds(&front.mentions.tools, slot, pictures, &self.state.seen());
        let tools = finds.tools();
        let room = self.room(info, window, &finds, front).await?;
        if has_to_be_whole {
            let refused = large_input::refusal(input.text.clone(), room, &info.id, window).await;
            return refused.map_or(Ok(input), |message| {
                let hint = "hand it over as a file, of which the model reads what it needs, or name a model with a larger \
                            window";
                Err(EngineError::new(ErrorKind::ContextOverflow, message).with_hint(hint).into())
            });
        }
        let session = self.state.settings.files_of(self.id);
        let kept = large_input::keep(&*self.shared.ports.workspaces, session, &tools, input, room).await;
        Ok(kept?)
    }

    /// The same of what is added to the turn that runs.
    pub(crate) async fn fit_added(&mut self, input: UserInput, has_to_be_whole: bool) -> Result<UserInput, Fault> {
        let Some(open) = &self.open else { return Ok(input) };
        let (choice, mentions) = (self.choice_at_work(), open.mentions.clone().unwrap_or_default());
        self.fit(input, has_to_be_whole, InFront { choice, mentions: &mentions, handed: &[], told: &[], brought: 0 })
            .await
    }

    /// Keeps the input of a turn that waits where it would not fit now, so that what is acknowledged is not refused for a
    /// full disk when its time comes.
    pub(crate) async fn keep_for_later(&mut self, start: &StartTurn) -> Result<(), Fault> {
        let Some(text) = &start.text else { return Ok(()) };
        let input = UserInput::whole(text.clone(), start.typed_bytes);
        let mentions = Mentions::default();
        // Its reader is the model that it names, not that of the turn that runs.
        let of_open = std::mem::replace(&mut self.options, start.options.clone());
        let choice = self.choose(start.slot, &[], None);
        let front = InFront { choice, mentions: &mentions, handed: &[], told: &[], brought: brought(start) };
        let fitted = self.fit(input, start.whole, front).await;
        self.options = of_open;
        fitted.map(drop)
    }

    /// The input of a turn that never ran, for the record of it.
    pub(crate) async fn fit_or_cut(
        &mut self,
        text: &str,
        typed_bytes: Option<u64>,
        choice: SlotChoice,
    ) -> Result<UserInput, Fault> {
        let mentions = Mentions::default();
        let front = InFront { choice, mentions: &mentions, handed: &[], told: &[], brought: 0 };
        match self.fit(UserInput::whole(text.to_owned(), typed_bytes), false, front).await {
            Err(Fault::Request(_)) => Ok(large_input::cut(text, typed_bytes, CUT)),
            fitted => fitted,
        }
    }

    /// A word to people about an input of which the model sees a part.
    pub(crate) fn stored_warning(&self, input: &UserInput, choice: SlotChoice) -> Option<EventKind> {
        input.warning(&self.model(choice.slot).info().id, self.least_window(choice))
    }

    /// The smaller window of the models that a turn may ask: the last answer may be written by another one.
    pub(crate) fn least_window(&self, choice: SlotChoice) -> u64 {
        let (windows, (_, chat)) = (&self.shared.windows, self.chat(choice));
        windows.of(self.model(choice.slot).info()).min(windows.of(chat.info()))
    }

    /// About how many tokens an input may have now.
    async fn room(
        &mut self,
        info: &ModelInfo,
        window: u64,
        finds: &Finds,
        front: InFront<'_>,
    ) -> Result<InputRoom, EngineError> {
        let workspace = self.workspace().await?;
        let tools = finds.tools();
        let (shared, acting) = (&self.shared, self.acting());
        let config = shared.config();
        let servers = finds.about_servers();
        let instructions = agentd_context::system(
            &acting.instructions(&config),
            &servers,
            &workspace,
            self.surroundings(),
            self.state.created_at,
        );
        let fixed = if info.embedded { 0 } else { tools.print.tokens + estimate(&instructions) };
        let guess = |item: &Item| meter::guess(item, info.echo_reasoning);
        let whole = || fixed + self.state.seen().iter().map(|item| guess(item)).sum::<u64>();
        // A turn that runs counts for itself.
        let taken = match &self.open {
            Some(_) => shared.scales.apply(&info.id, whole()),
            None => self.state.meter.expected(&shared.scales, Next { model: info, tools: tools.print }, whole),
        };
        let brought = shared.scales.apply(&info.id, if info.embedded { 0 } else { front.brought });
        let told = front.told.iter().map(|body| match body {
            ItemBody::Notice { text, .. } => estimate(text),
            _ => 0,
        });
        let occupied = OccupiedRoom {
            window,
            taken: taken + brought,
            fixed,
            told: told.sum(),
            thousand: shared.scales.apply(&info.id, 1000),
            embedded: info.embedded,
        };
        Ok(InputRoom::of(&occupied, config.large_result_tokens))
    }
}
