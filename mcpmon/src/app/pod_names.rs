//! Names of Kubernetes pods, by their UID: the kubelet makes a directory of logs for each pod, and names it by namespace,
//! pod and UID. A pod cannot write there, so that it cannot choose another's name.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use mcpmon_model::ContainerRef;

/// The kubelet's directory on the host. A daemon in a container that shares the host's processes finds it as well.
const LOGS: &str = "/proc/1/root/var/log/pods";
/// Most entries of the directory that are read.
const MAX_ENTRIES: usize = 4096;
/// Most pods that are remembered.
const MAX_PODS: usize = 1024;

/// The names of pods that were looked up.
#[derive(Debug)]
pub(super) struct PodNames {
    logs: PathBuf,
    /// Namespace and name by UID.
    known: HashMap<String, (String, String)>,
}

impl Default for PodNames {
    fn default() -> Self {
        Self::new(Path::new(LOGS))
    }
}

impl PodNames {
    fn new(logs: &Path) -> Self {
        Self {
            logs: logs.to_owned(),
            known: HashMap::new(),
        }
    }

    /// Adds namespace and name of the pod to a container, if they can be found.
    pub(super) fn complete(&mut self, container: &mut ContainerRef) {
        if let Some(uid) = container.pod_uid.as_deref()
            && container.pod.is_none()
            && let Some((namespace, pod)) = self.name(uid)
        {
            container.namespace = Some(namespace);
            container.pod = Some(pod);
        }
    }

    fn name(&mut self, uid: &str) -> Option<(String, String)> {
        if let Some(known) = self.known.get(uid) {
            return Some(known.clone());
        }
        let found = self.find(uid)?;
        if self.known.len() >= MAX_PODS {
            self.known.clear();
        }
        self.known.insert(uid.to_owned(), found.clone());
        Some(found)
    }

    fn find(&self, uid: &str) -> Option<(String, String)> {
        let entries = fs::read_dir(&self.logs).ok()?;
        let mut names = entries
            .take(MAX_ENTRIES)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.find_map(|name| {
            // Namespaces and names of pods have no underscore.
            let (rest, found) = name.rsplit_once('_')?;
            let (namespace, pod) = rest.split_once('_')?;
            (found == uid && !pod.contains('_')).then(|| (namespace.to_owned(), pod.to_owned()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_is_named_by_its_directory_of_logs() {
        let logs = tempfile::tempdir().expect("directory");
        let uid = "0d1f6a52-3c8e-4e1f-9d57-8a2b7c1e4f60";
        for name in [
            format!("agents_coder-0_{uid}"),
            "agents_other_17".to_owned(),
            "stray".to_owned(),
        ] {
            fs::create_dir(logs.path().join(name)).expect("made");
        }
        let mut names = PodNames::new(logs.path());
        let mut named = |uid: &str| {
            let mut container = ContainerRef {
                pod_uid: Some(uid.to_owned()),
                ..ContainerRef::default()
            };
            names.complete(&mut container);
            (container.namespace, container.pod)
        };
        assert_eq!(
            named(uid),
            (Some("agents".to_owned()), Some("coder-0".to_owned()))
        );
        assert_eq!(named("another"), (None, None));
        drop(logs);
        assert_eq!(named(uid).1, Some("coder-0".to_owned()), "it is remembered");
    }
}
