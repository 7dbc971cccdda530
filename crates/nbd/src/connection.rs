//! A connection from its first byte to its end.

use std::sync::Arc;

use tokio::time::timeout;

use crate::handshake::{Chosen, handshake};
use crate::places::{Handshake, Place};
use crate::server::Shared;
use crate::stream::Stream;
use crate::transmission::transmit;
use crate::{Address, Event, NbdError};

/// Serves the client at `peer` and reports the end of the connection.
pub(crate) async fn converse(
    stream: Box<dyn Stream>,
    peer: Address,
    begun: Handshake,
    mut place: Place,
    shared: Arc<Shared>,
) {
    let mut export = None;
    let ended = serve(stream, &peer, begun, &mut place, &shared, &mut export).await;
    let (name, error) = (export.as_deref(), ended.as_ref().err());
    (shared.on_event)(Event::Ended { peer: &peer, name, error });
    // a server that ends waits until this is reported
    drop(place);
}

/// Also sets the name of the export, once the client has chosen it.
async fn serve(
    stream: Box<dyn Stream>,
    peer: &Address,
    begun: Handshake,
    place: &mut Place,
    shared: &Shared,
    export: &mut Option<String>,
) -> Result<(), NbdError> {
    let limit = shared.limits.handshake;
    let mut closing = shared.closing();
    let agreed = tokio::select! {
        agreed = timeout(limit, handshake(stream, place, shared)) => agreed,
        () = begun.is_displaced() => {
            return Err(NbdError::Displaced { most: shared.limits.handshakes });
        }
        () = closing.wait() => return Ok(()),
    };
    drop(begun);
    let what = if matches!(place, Place::Awaited) { "waiting its turn" } else { "the handshake" };
    let Some((stream, chosen)) = agreed.map_err(|_| NbdError::TimedOut { what, limit })?? else {
        return Ok(());
    };
    let (name, is_encrypted) = match &chosen {
        Chosen::Here(agreed) => (agreed.export.name.clone(), agreed.is_encrypted),
        Chosen::There { relay, is_encrypted } => (relay.name.clone(), *is_encrypted),
    };
    (shared.on_event)(Event::Served { peer, name: &name, is_encrypted });
    *export = Some(name);
    match chosen {
        Chosen::Here(agreed) => transmit(stream, agreed, peer, shared).await,
        Chosen::There { relay, .. } => relay.run(stream, &mut closing).await,
    }
}
