//! Changes of what a server of the newer era offers. It reports them only to those who subscribe.

use std::{convert::Infallible, future::pending, time::Duration};

use rmcp::{
    model::{ServerPeerInfo, SubscriptionFilter},
    service::ServiceError,
};
use tokio::{sync::Notify, time::sleep};

use super::connect::Connection;

/// Delay before a subscription that has ended is made again.
const AGAIN: Duration = Duration::from_secs(30);

/// Tells `changed` of each change, as long as it is polled.
pub(super) async fn follow(connection: &Connection, changed: &Notify) -> Infallible {
    let Some(wanted) = wanted(&connection.info) else { return pending().await };
    loop {
        match connection.peer.listen(wanted.clone()).await {
            Ok(mut subscription) => {
                while let Ok(Some(_)) = subscription.next().await {
                    changed.notify_one();
                }
            }
            // It names changes among its capabilities, and reports none.
            Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse) => return pending().await,
            Err(_) => {}
        }
        sleep(AGAIN).await;
        // Nobody heard of the changes of that time.
        changed.notify_one();
    }
}

/// Subscription to all that changes of a server, by its capabilities; none where it reports changes to everybody.
fn wanted(info: &ServerPeerInfo) -> Option<SubscriptionFilter> {
    if info.protocol_version.has_initialize() {
        return None;
    }
    let capabilities = &info.capabilities;
    let mut wanted = SubscriptionFilter::new();
    wanted.tools_list_changed = capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
    wanted.resources_list_changed = capabilities.resources.as_ref().and_then(|resources| resources.list_changed);
    wanted.prompts_list_changed = capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed);
    let changes = [wanted.tools_list_changed, wanted.resources_list_changed, wanted.prompts_list_changed];
    changes.contains(&Some(true)).then_some(wanted)
}
