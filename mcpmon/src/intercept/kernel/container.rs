//! Containers and pods, read from cgroup paths.
