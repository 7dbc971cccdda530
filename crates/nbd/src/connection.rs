//! A connection from its first byte to its end.

use std::sync::Arc;

use tokio::time::timeout;

use crate::handshake::handshake;
use crate::server::Shared;
use crate::stream::Stream;
use crate::transmission::transmit;
use crate::{Address, Event, NbdError};

/// Talks with the client at `peer` and tells how it ended.
pub(crate) async fn converse(stream: Box<dyn Stream>, peer: Address, shared: Arc<Shared>) {
    let ended = serve(stream, &peer, &shared).await;
    (shared.on_event)(Event::Ended { peer: &peer, error: ended.as_ref().err() });
}

async fn serve(stream: Box<dyn Stream>, peer: &Address, shared: &Shared) -> Result<(), NbdError> {
    let limit = shared.limits.handshake;
    let mut closing = shared.closing();
    let agreed = tokio::select! {
        agreed = timeout(limit, handshake(stream, shared)) => agreed,
        () = closing.wait() => return Ok(()),
    };
    let what = "the handshake";
    let Some((stream, agreed)) = agreed.map_err(|_| NbdError::TimedOut { what, limit })?? else {
        return Ok(());
    };
    (shared.on_event)(Event::Served {
        peer,
        name: &agreed.export.name,
        is_encrypted: agreed.is_encrypted,
    });
    transmit(stream, agreed, shared).await
}
