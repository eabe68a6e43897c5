//! Requests only grow: each request starts with the whole previous request, regardless of additions in between.

use agentd_core::{
    event::EventKind,
    item::ItemBody,
    model::{Message, ModelRequest},
    session::SessionMode,
    turn::{IfBusy, StartTurn},
};
use agentd_testkit::scripted::{Play, calls, says};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{World, continuation, input, run, to_end, turn, until};

/// One action in a session.
#[derive(Debug, Clone, Copy)]
enum Action {
    /// A turn without calls.
    Talk,
    /// A turn that writes a todo list and completes one entry.
    Plan(u8),
    /// A turn with several parallel calls.
    Work(u8),
    /// A turn that is steered while it runs.
    Steer,
    /// A turn that reaches its limit, and gives a last answer.
    Limit,
    /// A turn in plan mode, after which the mode ends.
    Mode,
    /// A turn that is continued after its model failed.
    Fail,
    /// The daemon is restarted.
    Restart,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        Just(Action::Talk),
        (0u8..4).prop_map(Action::Plan),
        (1u8..5).prop_map(Action::Work),
        Just(Action::Steer),
        Just(Action::Limit),
        Just(Action::Mode),
        Just(Action::Fail),
        Just(Action::Restart),
    ]
}

fn todos(done: u8) -> Value {
    let todo = |n: u8| {
        let status = match n.cmp(&done) {
            std::cmp::Ordering::Less => "completed",
            std::cmp::Ordering::Equal => "in_progress",
            std::cmp::Ordering::Greater => "pending",
        };
        json!({"content": format!("part {n}"), "status": status})
    };
    json!({"todos": (0..4).map(todo).collect::<Vec<_>>()})
}

/// Performs the action, and returns the requests that it caused.
async fn play(world: &mut World, id: agentd_core::ids::SessionId, action: Action) -> Vec<ModelRequest> {
    let before = world.model.requests().len();
    let session = world.engine.session(id).await.unwrap();
    match action {
        Action::Talk => {
            world.model.then(says("Indeed."));
            run(&session, "What a day!").await;
        }
        Action::Plan(done) => {
            let finished = json!({"todos": [{"content": "part 0", "status": "completed"}]});
            let (plan, read) = (calls(&[("todo_write", todos(done))]), calls(&[("todo_read", json!({}))]));
            world.then([plan, read, calls(&[("todo_write", finished)]), says("Planned.")]);
            run(&session, "Plan it.").await;
        }
        Action::Work(many) => {
            let works: Vec<(&str, Value)> = (0..many).map(|_| ("look", json!({}))).collect();
            world.then([calls(&works), calls(&works), says("Done.")]);
            run(&session, "Work.").await;
        }
        Action::Steer => {
            world.then([calls(&[("hold", json!({}))]), says("Both.")]);
            let mut started = session.start_turn(input("Hold.")).await.unwrap();
            let begins = |kind: &EventKind| matches!(kind, EventKind::ItemStarted { item } if matches!(item.body, ItemBody::ToolResult(_)));
            until(&mut started.events, begins).await;
            let steering = StartTurn { if_busy: IfBusy::Steer, ..input("And that.") };
            drop(session.start_turn(steering).await.unwrap());
            world.tools.release(1);
            to_end(&mut started.events).await;
        }
        Action::Limit => {
            world.then([calls(&[("look", json!({}))]), says("That is all.")]);
            turn(&session, StartTurn { max_steps: Some(1), ..input("Just one.") }).await;
        }
        Action::Mode => {
            world.then([says("A plan."), says("Done.")]);
            session.set_mode(SessionMode::Plan, "test".to_owned()).await.unwrap();
            run(&session, "How?").await;
            session.set_mode(SessionMode::Ask, "test".to_owned()).await.unwrap();
            run(&session, "Then do it.").await;
        }
        Action::Fail => {
            world.then([Play::Fails(Vec::new(), agentd_core::error::ErrorKind::Unreachable), says("There.")]);
            run(&session, "Where?").await;
            turn(&session, continuation()).await;
        }
        Action::Restart => {
            *world = world.restarted([]);
            return Vec::new();
        }
    }
    world.model.requests().split_off(before)
}

/// Returns the first message that the next request does not have at the same position.
fn first_changed_message<'a>(before: &'a ModelRequest, after: &ModelRequest) -> Option<&'a Message> {
    let same = before.messages.iter().zip(&after.messages).take_while(|(then, now)| then == now).count();
    before.messages.get(same)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn each_request_extends_the_previous_one(actions in proptest::collection::vec(action(), 2..9)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let requests = runtime.block_on(async {
            let mut world = World::new([]);
            let id = world.session().await.id();
            // A session without a turn is not stored.
            let mut requests = play(&mut world, id, Action::Talk).await;
            for action in actions {
                requests.extend(play(&mut world, id, action).await);
            }
            requests
        });
        for pair in requests.windows(2) {
            prop_assert_eq!(first_changed_message(&pair[0], &pair[1]), None, "{:#?}\n{:#?}", pair[0].messages, pair[1].messages);
            prop_assert_eq!(&pair[0].tools, &pair[1].tools);
        }
        let invented = |message: &&Message| matches!(message, Message::Assistant { text, .. } if text.starts_with("(no"));
        prop_assert_eq!(requests.iter().flat_map(|request| &request.messages).find(invented), None);
    }
}
