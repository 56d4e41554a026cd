//! Determines directories from the environment. Only computes paths, without creating directories.

use std::ffi::OsString;
use std::path::PathBuf;

use super::value::is_unexpanded;

/// The environment, as a function from a name to its value.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StateDirError {
    #[error("no state directory: set HOME, XDG_STATE_HOME or ZSH_TOOL_STATE_DIR")]
    NoHome,
    #[error("ZSH_TOOL_STATE_DIR is the relative path {0:?}, and there is no working directory")]
    Relative(PathBuf),
}

/// A variable, unless it is unset, empty or a literal `${…}`.
pub(crate) fn variable(env: Env<'_>, name: &str) -> Option<OsString> {
    env(name).filter(|value| !value.is_empty() && !is_unexpanded(&value.to_string_lossy()))
}

/// A variable with an absolute path. The XDG standard ignores relative paths.
pub(crate) fn directory(env: Env<'_>, name: &str) -> Option<PathBuf> {
    variable(env, name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// `zsh-tool` in one of the XDG directories, or in that directory's default in HOME.
pub(crate) fn base_directory(env: Env<'_>, xdg_name: &str, under_home: &str) -> Option<PathBuf> {
    directory(env, xdg_name)
        .or_else(|| Some(directory(env, "HOME")?.join(under_home)))
        .map(|base| base.join("zsh-tool"))
}

/// The state directory, and the variable that determines it.
pub(crate) fn state_dir(env: Env<'_>) -> (Result<PathBuf, StateDirError>, Option<&'static str>) {
    let name = "ZSH_TOOL_STATE_DIR";
    if let Some(path) = variable(env, name).map(PathBuf::from) {
        // A relative one is that of the working directory, as a shell would take it.
        let absolute = std::path::absolute(&path).map_err(|_| StateDirError::Relative(path));
        return (absolute, Some(name));
    }
    let name = "XDG_STATE_HOME";
    let source = directory(env, name).map(|_| name);
    let path = base_directory(env, name, ".local/state");
    (path.ok_or(StateDirError::NoHome), source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state_dir_of(variables: &[(&str, &str)]) -> Result<PathBuf, StateDirError> {
        state_dir(&|name| {
            let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
            Some(value.into())
        })
        .0
    }

    #[test]
    fn the_first_given_state_directory_counts() {
        let all =
            [("ZSH_TOOL_STATE_DIR", "/own"), ("XDG_STATE_HOME", "/xdg"), ("HOME", "/home/me")];
        assert_eq!(state_dir_of(&all), Ok("/own".into()));
        assert_eq!(state_dir_of(&all[1..]), Ok("/xdg/zsh-tool".into()));
        let under_home = "/home/me/.local/state/zsh-tool";
        assert_eq!(state_dir_of(&all[2..]), Ok(under_home.into()));
    }

    #[test]
    fn an_unexpanded_variable_is_not_a_directory() {
        let variables = [("ZSH_TOOL_STATE_DIR", "${DIR}/x"), ("HOME", "/home/me")];
        let under_home = "/home/me/.local/state/zsh-tool";
        assert_eq!(state_dir_of(&variables), Ok(under_home.into()));
    }

    #[test]
    fn without_a_home_the_error_says_what_to_set() {
        let error = state_dir_of(&[("XDG_STATE_HOME", "relative")]).unwrap_err();
        assert_eq!(error, StateDirError::NoHome);
        assert!(error.to_string().contains("ZSH_TOOL_STATE_DIR"));
    }

    #[test]
    fn a_relative_state_directory_is_in_the_working_directory() {
        let found = state_dir_of(&[("ZSH_TOOL_STATE_DIR", "here/x"), ("HOME", "/h")]).unwrap();
        assert_eq!(found, std::env::current_dir().unwrap().join("here/x"));
    }
}
