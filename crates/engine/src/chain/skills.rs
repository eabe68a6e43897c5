//! The catalogue of skills, told in the same way as memory.

use agentd_core::item::{ItemBody, NoticeTopic};
use futures_util::future::BoxFuture;

use super::{Link, memory::tell_again};
use crate::{
    guides::{Opening, skills},
    turn::{Stop, TurnContext, TurnState},
};

pub(crate) struct Skills;

impl Link for Skills {
    fn name(&self) -> &'static str {
        "skills"
    }

    fn about(&self) -> &'static str {
        "which skills there are; what one says is read when it is needed"
    }

    fn before_input(&self, opening: &Opening<'_>) -> Option<ItemBody> {
        skills::notice(opening)
    }

    fn before_step<'a>(
        &'a self,
        context: &'a TurnContext,
        state: &'a mut TurnState,
    ) -> BoxFuture<'a, Result<(), Stop>> {
        tell_again(context, state, NoticeTopic::Skills, skills::notice)
    }
}
