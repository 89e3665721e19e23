//! Judging without the daemon, although one runs.

use mcpmon_model::Timestamp;
use mcpmon_store::{SessionMember, SinkSettings};

use super::{JudgeError, Options, Session, own::FollowedFile};

impl Session {
    /// Judges without the daemon, although one may run, because `cause` keeps this process from it. The host's policy
    /// file applies, with the user's own on top, if this user can read it.
    pub(super) fn beside_daemon(
        now: Timestamp,
        mut options: Options,
        member: SessionMember,
        cause: &str,
    ) -> Result<Self, JudgeError> {
        let (search, trust) = (options.search.clone(), options.trust);
        let host_policy = search.host_file().is_some().then(|| {
            // A host's file that cannot be used leaves the user's own policy, as does one that cannot be read.
            mcpmon_config::load(&search.of_host(), trust).ok()
        });
        let mut own_policy = None;
        let policy = match host_policy.flatten() {
            Some(mut host) => {
                host.settings.record.path = None;
                host.settings.record.sinks = SinkSettings::default();
                let (loaded, own) = FollowedFile::over(host, search, trust);
                options.loaded = Some(loaded);
                own_policy = Some(own);
                "the host's policy file"
            }
            None => "your own policy, not the host's",
        };
        tracing::error!(
            "{cause}: {policy} applies, and the daemon sees no call of this server; see `mcpmon status`"
        );
        let mut judge = Self::alone(now, options, member)?;
        if own_policy.is_some() {
            judge.own = own_policy;
            judge.reloader = None;
        }
        judge.host.tell_beside(now, judge.guard.policy(), cause, policy);
        Ok(judge)
    }
}
