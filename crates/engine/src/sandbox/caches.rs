//! Caches of package managers: what `npx` and `uvx` write before they start a server.

use std::path::{Path, PathBuf};

/// A package manager and its directories.
struct Manager {
    programs: &'static [&'static str],
    directories: &'static [Directory],
}

/// A directory of a package manager.
struct Directory {
    /// Variables that name the directory; the first that is set counts.
    variables: &'static [&'static str],
    /// The variable that names its parent directory, and its name there.
    within: Option<(&'static str, &'static str)>,
    /// Its place below the home directory.
    at_home: &'static str,
    /// The mirror that can replace it.
    mirrored: Option<MirroredCache>,
}

/// A cache of a package manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageCache {
    /// Its directory.
    pub path: PathBuf,
    /// The mirror that its package manager can use instead, if there is one.
    pub mirrored: Option<MirroredCache>,
}

/// A mirror of a cache: it has its own directories, with links to the files in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirroredCache {
    /// The variable that gives its path to the package manager.
    pub variable: &'static str,
    /// The levels of directories below it that the package manager writes to.
    pub levels: usize,
}

impl Directory {
    const fn mirrored(self, variable: &'static str, levels: usize) -> Self {
        Self {
            mirrored: Some(MirroredCache { variable, levels }),
            ..self
        }
    }
}

const fn at_home(at_home: &'static str) -> Directory {
    named(&[], at_home)
}

const fn named(variables: &'static [&'static str], at_home: &'static str) -> Directory {
    Directory {
        variables,
        within: None,
        at_home,
        mirrored: None,
    }
}

const fn cache(variables: &'static [&'static str], name: &'static str, at_home: &'static str) -> Directory {
    Directory {
        variables,
        within: Some(("XDG_CACHE_HOME", name)),
        at_home,
        mirrored: None,
    }
}

const fn data(variables: &'static [&'static str], name: &'static str, at_home: &'static str) -> Directory {
    Directory {
        variables,
        within: Some(("XDG_DATA_HOME", name)),
        at_home,
        mirrored: None,
    }
}

const MANAGERS: [Manager; 8] = [
    Manager {
        programs: &["npx", "npm"],
        directories: &[
            named(&["npm_config_cache", "NPM_CONFIG_CACHE"], ".npm").mirrored("npm_config_cache", 2)
        ],
    },
    Manager {
        programs: &["pnpm", "pnpx"],
        directories: &[
            cache(&[], "pnpm", ".cache/pnpm"),
            data(&["PNPM_HOME"], "pnpm", ".local/share/pnpm"),
        ],
    },
    Manager {
        programs: &["yarn", "yarnpkg"],
        directories: &[
            cache(&["YARN_CACHE_FOLDER"], "yarn", ".cache/yarn"),
            at_home(".yarn"),
        ],
    },
    Manager {
        programs: &["bun", "bunx"],
        directories: &[named(&["BUN_INSTALL_CACHE_DIR"], ".bun/install/cache")],
    },
    Manager {
        programs: &["uv", "uvx"],
        directories: &[
            cache(&["UV_CACHE_DIR"], "uv", ".cache/uv").mirrored("UV_CACHE_DIR", 1),
            data(&[], "uv", ".local/share/uv"),
            data(&["UV_TOOL_DIR"], "uv/tools", ".local/share/uv/tools").mirrored("UV_TOOL_DIR", 1),
        ],
    },
    Manager {
        programs: &["pipx"],
        directories: &[
            cache(&[], "pipx", ".cache/pipx"),
            cache(&["PIP_CACHE_DIR"], "pip", ".cache/pip"),
            data(&["PIPX_HOME"], "pipx", ".local/share/pipx"),
        ],
    },
    Manager {
        programs: &["deno"],
        directories: &[cache(&["DENO_DIR"], "deno", ".cache/deno")],
    },
    Manager {
        programs: &["go"],
        directories: &[
            cache(&["GOCACHE"], "go-build", ".cache/go-build"),
            named(&["GOMODCACHE"], "go/pkg/mod"),
        ],
    },
];

/// Returns the directories that the package managers among `programs` write to, according to their environment.
pub fn package_caches<'p>(
    programs: impl IntoIterator<Item = &'p str>,
    home: Option<&Path>,
    variable: impl Fn(&str) -> Option<PathBuf>,
) -> Vec<PackageCache> {
    let directories = programs.into_iter().flat_map(|program| {
        let name = program.rsplit('/').next().unwrap_or(program);
        let managers = MANAGERS
            .iter()
            .filter(move |manager| manager.programs.contains(&name));
        managers.flat_map(|manager| manager.directories)
    });
    let place = |directory: &Directory| {
        let named = directory.variables.iter().find_map(|name| variable(name));
        let within = || {
            let (base, name) = directory.within?;
            Some(variable(base)?.join(name))
        };
        let found = named.or_else(within).filter(|path| path.is_absolute());
        let path = found.or_else(|| home.map(|home| home.join(directory.at_home)))?;
        Some(PackageCache {
            path,
            mirrored: directory.mirrored,
        })
    };
    directories.filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("/usr/bin/npx", &[] => vec!["/home/me/.npm"]; "npx")]
    #[test_case("npx", &[("npm_config_cache", "/c")] => vec!["/c"]; "npx with a variable")]
    #[test_case("uvx", &[] => vec!["/home/me/.cache/uv", "/home/me/.local/share/uv", "/home/me/.local/share/uv/tools"]; "uvx")]
    #[test_case("uvx", &[("XDG_CACHE_HOME", "/c")] => vec!["/c/uv", "/home/me/.local/share/uv", "/home/me/.local/share/uv/tools"]; "uvx with a directory of caches")]
    #[test_case("uvx", &[("UV_CACHE_DIR", "relative")] => vec!["/home/me/.cache/uv", "/home/me/.local/share/uv", "/home/me/.local/share/uv/tools"]; "a relative path")]
    #[test_case("node", &[] => Vec::<String>::new(); "no package manager")]
    fn caches(program: &str, variables: &[(&str, &str)]) -> Vec<String> {
        let variable = |name: &str| {
            let mut variables = variables.iter();
            variables.find_map(|(known, value)| (*known == name).then(|| PathBuf::from(value)))
        };
        let caches = package_caches([program], Some(Path::new("/home/me")), variable);
        caches
            .iter()
            .map(|cache| cache.path.display().to_string())
            .collect()
    }
}
