//! The rights of users at the control socket, as one table. The match names every kind of request, so that a new one
//! does not compile before its rights are decided.

use super::DaemonRequest;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Status,
    SelfTest,
    ResetPins,
    TrustPins,
    TrustExecutable,
    Decide,
    AnswerCall,
    Kill,
    OwnRecords,
    /// The connection becomes that of a wrapper or of a session.
    Join,
}

/// The rank of the user at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    Root,
    /// A member of the group `mcpmon`.
    Member,
    User,
}

/// The part of the daemon's state that a request may be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Every user's.
    Everything,
    /// The servers, sessions and records of the peer's own uid.
    Own,
    Nothing,
}

impl RequestKind {
    pub(crate) const fn new(request: &DaemonRequest) -> Self {
        match request {
            DaemonRequest::Status => Self::Status,
            DaemonRequest::SelfTest => Self::SelfTest,
            DaemonRequest::ResetPins { .. } => Self::ResetPins,
            DaemonRequest::TrustPins { .. } => Self::TrustPins,
            DaemonRequest::TrustExecutable { .. } => Self::TrustExecutable,
            DaemonRequest::Decide { .. } => Self::Decide,
            DaemonRequest::AnswerCall { .. } => Self::AnswerCall,
            DaemonRequest::Kill { .. } => Self::Kill,
            DaemonRequest::OwnRecords => Self::OwnRecords,
            DaemonRequest::Wrap { .. }
            | DaemonRequest::Records { .. }
            | DaemonRequest::Fate { .. }
            | DaemonRequest::Run { .. } => Self::Join,
        }
    }

    /// Returns whether the request makes a decision for a person. A process of an agent or a server may not send it.
    pub(crate) const fn is_decision(self) -> bool {
        matches!(self, Self::Decide | Self::AnswerCall)
    }
}

/// Returns the scope in which a user of `rank` may make a request of `kind`.
pub(crate) const fn scope(kind: RequestKind, rank: Rank) -> Scope {
    match (kind, rank) {
        // A wrapper speaks for its own user, whoever that is. Root and members read the store itself.
        (RequestKind::Join | RequestKind::OwnRecords, Rank::Root | Rank::Member | Rank::User) => Scope::Own,
        (
            RequestKind::Status
            | RequestKind::SelfTest
            | RequestKind::ResetPins
            | RequestKind::TrustPins
            | RequestKind::TrustExecutable
            | RequestKind::Decide
            | RequestKind::AnswerCall
            | RequestKind::Kill,
            Rank::Root,
        )
        | (RequestKind::Status | RequestKind::SelfTest, Rank::Member) => Scope::Everything,
        (RequestKind::Status, Rank::User)
        | (RequestKind::Decide | RequestKind::AnswerCall, Rank::Member | Rank::User) => Scope::Own,
        (RequestKind::SelfTest, Rank::User)
        | (
            RequestKind::ResetPins
            | RequestKind::TrustPins
            | RequestKind::TrustExecutable
            | RequestKind::Kill,
            Rank::Member | Rank::User,
        ) => Scope::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    const ALICE: u32 = 1000;
    const BOB: u32 = 1001;

    /// Returns whether a peer with this scope may ask about a server or session of the user `subject`.
    const fn includes(scope: Scope, peer: u32, subject: u32) -> bool {
        match scope {
            Scope::Everything => true,
            Scope::Own => peer == subject,
            Scope::Nothing => false,
        }
    }

    /// The answers to root, a member, the owner of the subject, and another user.
    #[test_case(RequestKind::Status => [true, true, true, false])]
    #[test_case(RequestKind::SelfTest => [true, true, false, false])]
    #[test_case(RequestKind::ResetPins => [true, false, false, false])]
    #[test_case(RequestKind::TrustPins => [true, false, false, false])]
    #[test_case(RequestKind::TrustExecutable => [true, false, false, false])]
    #[test_case(RequestKind::Decide => [true, false, true, false])]
    #[test_case(RequestKind::AnswerCall => [true, false, true, false])]
    #[test_case(RequestKind::Kill => [true, false, false, false])]
    #[test_case(RequestKind::OwnRecords => [false, false, true, false])]
    #[test_case(RequestKind::Join => [false, false, true, false])]
    fn each_request_has_an_explicit_right(kind: RequestKind) -> [bool; 4] {
        let peers = [
            (Rank::Root, 0),
            (Rank::Member, BOB),
            (Rank::User, ALICE),
            (Rank::User, BOB),
        ];
        peers.map(|(rank, uid)| includes(scope(kind, rank), uid, ALICE))
    }

    #[test]
    fn members_decide_for_themselves_only() {
        for kind in [RequestKind::Decide, RequestKind::AnswerCall] {
            assert!(includes(scope(kind, Rank::Member), BOB, BOB));
        }
    }
}
