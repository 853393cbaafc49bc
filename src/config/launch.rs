//! Owns what a launch comes to: the program, its arguments, its environment and its folder, all expanded.
//! It starts nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::lookup::{ExpandError, Expanded, Lookup, Problem};
use super::template::{Template, from_base, leads_somewhere};
use super::{InheritEnv, Launch};

/// The variables that every source gets if the relay has them, and why. No secret belongs here.
pub const SAFE_ENV: &[(&str, &str)] = &[
    ("PATH", "finding programs"),
    ("HOME", "caches and settings of the program"),
    ("USER", "who it runs as"),
    ("LOGNAME", "who it runs as"),
    ("SHELL", "programs that start a shell"),
    ("TERM", "how to write to a terminal"),
    ("TZ", "the time zone"),
    ("LANG", "language and character set"),
    ("LANGUAGE", "order of languages"),
    ("LC_ALL", "language and character set"),
    ("LC_ADDRESS", "language of addresses"),
    ("LC_COLLATE", "how text is sorted"),
    ("LC_CTYPE", "character set"),
    ("LC_IDENTIFICATION", "which locale it is"),
    ("LC_MEASUREMENT", "units"),
    ("LC_MESSAGES", "language of messages"),
    ("LC_MONETARY", "how money is written"),
    ("LC_NAME", "how names are written"),
    ("LC_NUMERIC", "how numbers are written"),
    ("LC_PAPER", "paper size"),
    ("LC_TELEPHONE", "how telephone numbers are written"),
    ("LC_TIME", "how times are written"),
    ("TMPDIR", "temporary files"),
    ("TEMP", "temporary files"),
    ("TMP", "temporary files"),
    ("XDG_CACHE_HOME", "where caches are"),
    ("XDG_CONFIG_DIRS", "where settings are"),
    ("XDG_CONFIG_HOME", "where settings are"),
    ("XDG_DATA_DIRS", "where data is"),
    ("XDG_DATA_HOME", "where data is"),
    ("XDG_RUNTIME_DIR", "sockets of the user's session"),
    ("XDG_STATE_HOME", "where state is"),
    ("http_proxy", "the way out"),
    ("https_proxy", "the way out"),
    ("no_proxy", "what needs no way out"),
    ("all_proxy", "the way out"),
    ("HTTP_PROXY", "the way out"),
    ("HTTPS_PROXY", "the way out"),
    ("NO_PROXY", "what needs no way out"),
    ("ALL_PROXY", "the way out"),
    ("SSL_CERT_FILE", "whom to trust behind a company's proxy"),
    ("SSL_CERT_DIR", "whom to trust behind a company's proxy"),
    ("NODE_EXTRA_CA_CERTS", "the same, for Node"),
    ("SystemRoot", "Windows: sockets and system libraries fail without it"),
    ("SystemDrive", "Windows: paths of the system"),
    ("windir", "Windows: the old name of SystemRoot"),
    ("COMSPEC", "Windows: starting .cmd files"),
    ("PATHEXT", "Windows: which files are programs"),
    ("USERPROFILE", "Windows: the home folder"),
    ("USERNAME", "Windows: who it runs as"),
    ("HOMEDRIVE", "Windows: the home folder"),
    ("HOMEPATH", "Windows: the home folder"),
    ("APPDATA", "Windows: settings; where npm puts programs"),
    ("LOCALAPPDATA", "Windows: caches"),
    ("ProgramData", "Windows: settings for all users"),
    ("ProgramFiles", "Windows: where programs are"),
    ("ProgramFiles(x86)", "Windows: where programs are"),
    ("ProgramW6432", "Windows: where programs are"),
    ("CommonProgramFiles", "Windows: where shared libraries are"),
    ("PROCESSOR_ARCHITECTURE", "Windows: which programs fit"),
    ("NUMBER_OF_PROCESSORS", "Windows: how many threads to use"),
];

/// Parts of the names of variables that hold credentials.
const CREDENTIALS: &[&str] = &["TOKEN", "KEY", "SECRET", "PASSWORD"];

/// A launch with everything expanded.
#[derive(Clone, PartialEq, Eq)]
pub struct Resolved {
    /// A bare name, or an absolute path as far as the configuration's folder is one.
    pub command: String,
    pub args: Vec<String>,
    /// The whole environment, sorted by name: nothing else is to be inherited.
    pub env: Vec<(String, String)>,
    /// `None`: the relay's own working directory.
    pub cwd: Option<PathBuf>,
    /// What to mask wherever this source's words are shown.
    pub secrets: Vec<String>,
}

/// Neither arguments nor values of variables: they may be secrets.
impl std::fmt::Debug for Resolved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolved").field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

impl Launch {
    /// Expands everything, for one start. Runs the commands of `${cmd:...}`, so it may take long.
    pub fn resolve(&self, lookup: &dyn Lookup) -> Result<Resolved, ExpandError> {
        let mut secrets = Vec::new();
        let mut keep = |expanded: Expanded| {
            secrets.extend(expanded.secrets);
            expanded.value
        };
        let command = keep(self.command.expand_path(lookup).map_err(|error| placed("command", error))?);
        if command.is_empty() {
            return Err(ExpandError { key: "command".to_owned(), problem: Problem::EmptyCommand });
        }
        let mut args = Vec::with_capacity(self.args.len());
        for (at, arg) in self.args.iter().enumerate() {
            args.push(keep(arg.expand_path(lookup).map_err(|error| placed(&format!("args[{at}]"), error))?));
        }
        let mut env = self.inherited(lookup);
        for (name, template) in &self.env {
            let key = super::fault::dotted("env", name);
            let expanded = template.expand(lookup).map_err(|error| placed(&key, error))?;
            if let Some(problem) = empty_credential(name, template, &expanded.value) {
                return Err(ExpandError { key, problem });
            }
            set(&mut env, name, keep(expanded));
        }
        let cwd = match &self.cwd {
            Some(cwd) => {
                let cwd = keep(cwd.expand_path(lookup).map_err(|error| placed("cwd", error))?);
                Some(from_base(&cwd, &self.base))
            }
            None => None,
        };
        let command = if leads_somewhere(&command) {
            from_base(&command, &self.base).to_string_lossy().into_owned()
        } else {
            command
        };
        let named = env.iter().filter(|(name, _)| names_credential(name)).map(|(_, value)| value.clone());
        secrets.extend(named.filter(|value| value.chars().count() >= super::template::SECRET_MIN_CHARS));
        secrets.sort();
        secrets.dedup();
        Ok(Resolved { command, args, env: env.into_iter().collect(), cwd, secrets })
    }

    /// What the relay's own environment gives this source.
    fn inherited(&self, lookup: &dyn Lookup) -> BTreeMap<String, String> {
        let named = match &self.inherit_env {
            InheritEnv::All => return lookup.vars().into_iter().collect(),
            InheritEnv::Named(names) => names,
        };
        let safe = SAFE_ENV.iter().map(|&(name, _)| name);
        let names = safe.chain(named.iter().map(String::as_str));
        names.filter_map(|name| Some((name.to_owned(), lookup.var(name)?))).collect()
    }

    /// A hash over what it comes to, and where it is started, as far as no file has to be read and no command run for it: all of
    /// it in one, so that nothing of it can be had back.
    pub(super) fn fingerprint(&self, lookup: &dyn Lookup) -> String {
        let mut print = Fingerprint::default();
        let command = self.command.outcome(true, lookup);
        if leads_somewhere(&command) {
            print.add("command", &from_base(&command, &self.base).to_string_lossy());
        } else {
            print.add("command", &command);
        }
        self.args.iter().for_each(|arg| print.add("arg", &arg.outcome(true, lookup)));
        self.env.iter().for_each(|(name, value)| print.add(&format!("env {name}"), &value.outcome(false, lookup)));
        let folder = match &self.cwd {
            Some(cwd) => Some(from_base(&cwd.outcome(true, lookup), &self.base)),
            None => lookup.folder(),
        };
        print.add("cwd", &folder.unwrap_or_default().to_string_lossy());
        match &self.inherit_env {
            // Much of it differs from one terminal to the next, and is about no account.
            InheritEnv::All => print.add("inherit", "all"),
            InheritEnv::Named(names) => names.iter().for_each(|name| {
                print.add("inherit name", name);
                print.add("inherit value", &lookup.var(name).unwrap_or_default());
            }),
        }
        print.done()
    }
}

/// A hash over labelled texts.
#[derive(Default)]
pub(super) struct Fingerprint(Sha256);

impl Fingerprint {
    pub(super) fn add(&mut self, label: &str, text: &str) {
        for part in [label, text] {
            self.0.update((part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
    }

    pub(super) fn done(self) -> String {
        self.0.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Whether a command is a program with its arguments behind it, which no system starts.
pub(super) fn has_arguments(command: &str, base: &Path, lookup: &dyn Lookup) -> bool {
    let Some((program, _)) = command.split_once(char::is_whitespace) else { return false };
    let path = lookup.var("PATH").unwrap_or_default();
    let is_there = |name: &str| match leads_somewhere(name) {
        true => lookup.is_file(&from_base(name, base)),
        false => std::env::split_paths(&path).any(|folder| lookup.is_file(&folder.join(name))),
    };
    // A path with blanks in it may be there tomorrow.
    !is_there(command) && (!leads_somewhere(program) || is_there(program))
}

/// The problem of an `env` entry that would send an empty credential.
pub(super) fn empty_credential(name: &str, template: &Template, value: &str) -> Option<Problem> {
    (value.is_empty() && names_credential(name) && template.is_one_reference())
        .then(|| Problem::EmptyCredential(template.raw().to_owned()))
}

/// Whether a variable so named holds a secret, wherever it comes from.
pub(super) fn names_credential(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    CREDENTIALS.iter().any(|part| name.contains(part))
}

pub(super) fn placed(key: &str, error: ExpandError) -> ExpandError {
    ExpandError { key: key.to_owned(), ..error }
}

/// Sets a variable; where names have no case, in place of the one that is there.
fn set(env: &mut BTreeMap<String, String>, name: &str, value: String) {
    if cfg!(windows) {
        env.retain(|there, _| !there.eq_ignore_ascii_case(name));
    }
    env.insert(name.to_owned(), value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::fake::FakeLookup;

    fn template(raw: &str) -> Template {
        Template::parse(raw, Path::new("/conf")).unwrap()
    }

    fn launch(command: &str, args: &[&str], env: &[(&str, &str)], cwd: Option<&str>) -> Launch {
        Launch {
            command: template(command),
            args: args.iter().map(|arg| template(arg)).collect(),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), template(value))).collect(),
            inherit_env: InheritEnv::Named(Vec::new()),
            cwd: cwd.map(template),
            base: "/conf".into(),
        }
    }

    fn lookup() -> FakeLookup {
        FakeLookup::new(&[
            ("PATH", "/bin"),
            ("OTHER_API_KEY", "of-another"),
            ("SSH_AUTH_SOCK", "/sock"),
            ("T", "secret-token"),
            ("EMPTY", ""),
            ("DIR", "~/x"),
        ])
        .command(&["pass"], "")
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn everything_is_expanded() {
        let launch = launch(
            "./srv-${T}",
            &["~/data", "${T}", "a${EMPTY}b", ".", "$$x"],
            &[("A", "~/${T}"), ("PATH", "${PATH}:/x/bin"), ("NOTHING", "")],
            Some("app/./dir"),
        );
        assert_eq!(
            launch.resolve(&lookup()),
            Ok(Resolved {
                command: "/conf/srv-secret-token".to_owned(),
                args: ["/home/u/data", "secret-token", "ab", ".", "$x"].map(str::to_owned).to_vec(),
                env: pairs(&[("A", "~/secret-token"), ("NOTHING", ""), ("PATH", "/bin:/x/bin")]),
                cwd: Some("/conf/app/dir".into()),
                secrets: vec!["secret-token".to_owned()],
            })
        );
    }

    #[test]
    fn commands_and_folders_start_at_the_file() {
        for (command, cwd, result) in [
            ("npx", None, ("npx", None)),
            ("./srv", Some("."), ("/conf/srv", Some("/conf"))),
            ("bin/srv", Some("~/x"), ("/conf/bin/srv", Some("/home/u/x"))),
            ("~/srv", Some("/abs"), ("/home/u/srv", Some("/abs"))),
            ("/abs/srv", Some("${DIR}"), ("/abs/srv", Some("/conf/~/x"))),
        ] {
            let resolved = launch(command, &[], &[], cwd).resolve(&lookup()).unwrap();
            assert_eq!((resolved.command.as_str(), resolved.cwd.as_deref()), (result.0, result.1.map(Path::new)));
        }
    }

    #[test]
    fn only_the_safe_minimum_and_what_is_named_is_inherited() {
        for (inherit, names) in [
            (InheritEnv::Named(Vec::new()), &["A", "PATH"][..]),
            (InheritEnv::Named(vec!["SSH_AUTH_SOCK".to_owned(), "NONE".to_owned()]), &["A", "PATH", "SSH_AUTH_SOCK"]),
            (InheritEnv::All, &["A", "DIR", "EMPTY", "OTHER_API_KEY", "PATH", "SSH_AUTH_SOCK", "T"]),
        ] {
            let launch = Launch { inherit_env: inherit, ..launch("x", &[], &[("A", "1")], None) };
            let resolved = launch.resolve(&lookup()).unwrap();
            assert_eq!(resolved.env.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);
        }
    }

    #[test]
    fn what_a_name_calls_a_secret_is_one() {
        let env = [("API_TOKEN", "literal-1"), ("MODE", "literal-2"), ("DB_PASSWORD", "short")];
        let resolved = launch("x", &[], &env, None).resolve(&lookup()).unwrap();
        assert_eq!(resolved.secrets, ["literal-1"]);
    }

    #[test]
    fn what_fails_is_named_without_values() {
        for (launch, told) in [
            (launch("${NONE}", &[], &[], None), "command: variable `NONE` is not set"),
            (launch("${EMPTY}", &[], &[], None), "command: the command is empty"),
            (launch("x", &["${T}", "${NONE}"], &[], None), "args[1]: variable `NONE` is not set"),
            (launch("x", &[], &[("A", "${T}${NONE}")], None), "env.A: variable `NONE` is not set"),
            (
                launch("x", &[], &[("API_KEY", "${EMPTY}")], None),
                "env.API_KEY: the credential is empty: `${EMPTY}` gives no text",
            ),
            (
                launch("x", &[], &[("A_TOKEN", "${cmd:pass}")], None),
                "env.A_TOKEN: the credential is empty: `${cmd:pass}` gives no text",
            ),
            (launch("x", &[], &[], Some("${NONE}")), "cwd: variable `NONE` is not set"),
        ] {
            assert_eq!(launch.resolve(&lookup()).map_err(|error| error.to_string()), Err(told.to_owned()));
        }
        let homeless = launch("~/x", &[], &[], None).resolve(&lookup().homeless());
        assert_eq!(homeless.map_err(|error| error.problem), Err(Problem::NoHome));
    }

    #[test]
    fn the_fingerprint_is_over_what_it_comes_to() {
        let plain = launch("x", &["a", "~/b"], &[("A", "${T}")], None);
        let print = |launch: &Launch| launch.fingerprint(&lookup().within("/work"));
        let same = [
            Launch { base: "/elsewhere".into(), ..plain.clone() },
            launch("x", &["a", "/home/u/b"], &[("A", "secret-${NONE:-token}")], Some("/work")),
            launch("${NONE:-x}", &["a", "~/b"], &[("A", "${T}")], None),
        ];
        assert!(same.iter().all(|same| print(same) == print(&plain)));
        assert_eq!(print(&plain).len(), 32);
        let others = [
            launch("y", &["a", "~/b"], &[("A", "${T}")], None),
            launch("x", &["a~/b"], &[("A", "${T}")], None),
            launch("x", &["a", "~/b"], &[("A", "another")], None),
            launch("x", &["a", "~/b"], &[("A", "${NONE}")], None),
            launch("x", &["a", "~/b"], &[("A", "${file:a}")], None),
            launch("x", &["a", "~/b"], &[("A", "${cmd:a}")], None),
            launch("x", &["a", "~/b"], &[("B", "${T}")], None),
            launch("x", &["a", "~/b"], &[("A", "${T}")], Some("/x")),
            Launch { inherit_env: InheritEnv::All, ..plain.clone() },
            Launch { inherit_env: InheritEnv::Named(vec!["T".to_owned()]), ..plain.clone() },
            launch("./x", &["a", "~/b"], &[("A", "${T}")], None),
            Launch { base: "/elsewhere".into(), ..launch("./x", &["a", "~/b"], &[("A", "${T}")], None) },
        ];
        let mut prints: Vec<_> = others.iter().chain([&plain]).map(print).collect();
        prints.push(plain.fingerprint(&lookup().within("/elsewhere")));
        prints.push(plain.fingerprint(&FakeLookup::new(&[("T", "of-another")]).within("/work")));
        prints.push(plain.fingerprint(&lookup().within("/work").homeless()));
        let count = prints.len();
        prints.sort();
        prints.dedup();
        assert_eq!(prints.len(), count);
    }
}
