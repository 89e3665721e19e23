//! Records of wrappers, on a connection of their own: only a sender that waits for nothing else waits for the
//! disk.

use mcpmon_model::{HeldCall, PinKey, Recent};
use mcpmon_session::{
    clock,
    protocol::{Hear, Say},
};
use mcpmon_store::{SessionMember, StoreEntry, StoredEvent, json};
use tokio::{io::BufReader, net::UnixStream};

use super::{
    FLUSH, Wrappers,
    service::{answer, misunderstood, next},
};

/// Longest line that is read where calls are checked. It takes less time than to hand it to another thread.
const SHORT: usize = 8 << 10;

/// Takes in what `member` has to be kept until it leaves.
pub(super) async fn take(wrappers: &Wrappers, stream: &mut BufReader<UnixStream>, member: &SessionMember) {
    let mut line = Vec::new();
    while next(stream, &mut line).await {
        let heard = match line.len() <= SHORT {
            true => match read(wrappers, &line, member) {
                Ok(entries) if entries.is_empty() => Hear::Done, // all of it was for the session
                Ok(entries) => in_the_background(wrappers, move |wrappers| keep(wrappers, entries)).await,
                Err(refused) => refused,
            },
            false => {
                let (member, line) = (member.clone(), std::mem::take(&mut line));
                let work = move |wrappers: &Wrappers| match read(wrappers, &line, &member) {
                    Ok(entries) => keep(wrappers, entries),
                    Err(refused) => refused,
                };
                in_the_background(wrappers, work).await
            }
        };
        if answer(stream, &heard).await.is_err() {
            return;
        }
    }
}

async fn in_the_background(
    wrappers: &Wrappers,
    work: impl FnOnce(&Wrappers) -> Hear + Send + 'static,
) -> Hear {
    let wrappers = wrappers.clone();
    let done = tokio::task::spawn_blocking(move || work(&wrappers)).await;
    done.unwrap_or_else(|error| Hear::Unkept(error.to_string()))
}

/// Returns the entries of a line for the store. Recent calls of the session are taken from it.
fn read(wrappers: &Wrappers, line: &[u8], member: &SessionMember) -> Result<Vec<StoreEntry>, Hear> {
    let refused = |cause: &str| Hear::Error(cause.to_owned());
    let say = serde_json::from_slice::<Say>(line).map_err(|error| misunderstood(&error))?;
    let Say::Keep {
        events,
        rescued,
        definitions,
        forget,
        held,
        released,
        recent,
    } = say
    else {
        return Err(refused("here is only said what is to be kept"));
    };
    let is_own = |recent: &Recent| *recent.server() == member.identity.server && recent.is_bounded();
    let mut entries = Vec::with_capacity(events.len());
    let told = events
        .into_iter()
        .map(|fields| (fields, StoreEntry::Event as fn(StoredEvent) -> StoreEntry));
    let rescued = rescued
        .into_iter()
        .map(|fields| (fields, StoreEntry::Rescued as _));
    for (fields, entry) in told.chain(rescued) {
        let event = json::from_json(fields).ok_or_else(|| refused("one of the events is none"))?;
        entries.push(entry(event));
    }
    entries.extend(definitions.into_iter().map(StoreEntry::Definition));
    entries.extend(forget.into_iter().map(StoreEntry::ForgetDefinition));
    if !held.iter().all(|call| is_held_by(call, member)) {
        return Err(refused("a wrapper holds calls of its own server"));
    }
    entries.extend(
        held.into_iter()
            .map(|call| StoreEntry::HoldCall(member.process, Box::new(call))),
    );
    let released = released.into_iter();
    entries.extend(released.map(|id| StoreEntry::ReleaseCall(member.identity.clone(), id)));
    if !recent.iter().all(is_own) || !entries.iter().all(|entry| is_of(entry, &member.identity)) {
        return Err(refused("a wrapper speaks for its own server"));
    }
    wrappers.0.sessions.take(clock::now(), member, recent);
    Ok(entries)
}

/// Takes it in. What is acknowledged is in the store, and outlives this process; the wrapper keeps what is not, so that
/// it may be kept twice and is not lost.
fn keep(wrappers: &Wrappers, entries: Vec<StoreEntry>) -> Hear {
    match wrappers.0.recorder.put_all(entries, FLUSH) {
        Ok(()) => Hear::Done,
        Err(unkept) => Hear::Unkept(format!("{unkept}; see `mcpmon status`")),
    }
}

/// Returns whether a call that waits for a person is one of this wrapper.
fn is_held_by(call: &HeldCall, member: &SessionMember) -> bool {
    call.identity == member.identity && call.session.as_ref() == Some(&member.session)
}

/// Returns whether a wrapper may report this entry about this server.
fn is_of(entry: &StoreEntry, identity: &PinKey) -> bool {
    match entry {
        StoreEntry::Definition(record) => record.key.identity == *identity,
        StoreEntry::ForgetDefinition(key) => key.identity == *identity,
        StoreEntry::ReleaseCall(of, _) => of == identity,
        StoreEntry::HoldCall(_, call) => call.identity == *identity,
        // Of a wrapper that was killed: it may have been that of another server.
        StoreEntry::Rescued(_) => true,
        StoreEntry::Event(event) => event.server_id.as_deref() == Some(identity.server.as_str()),
        StoreEntry::Leave(..)
        | StoreEntry::PutPin(_)
        | StoreEntry::DeletePins(_)
        | StoreEntry::DeletePinSet(..)
        | StoreEntry::Declare(_)
        | StoreEntry::Recent(..)
        | StoreEntry::Unread(..)
        | StoreEntry::ForgetRunning
        | StoreEntry::Watch(_)
        | StoreEntry::Unposted(_)
        | StoreEntry::PolicyChanged
        | StoreEntry::Body(_)
        | StoreEntry::ShortenBodies(_) => false,
    }
}
