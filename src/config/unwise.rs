//! Owns what works in a configuration and is hardly meant: it is told, and keeps nothing from running.
//! It decides about no value; what cannot work is a fault, and told where it is read.

use super::fault::dotted;
use super::read::Reader;
use super::source::reach;
use super::template::{Template, from_base};
use super::values::{Span, Values};
use super::{Reach, Remote};

/// What other programs' patterns have, and globs have not.
const NO_SIGNS: &[char] = &['{', '}', '[', ']', '(', ')', '|', '^', '!', '\\', ','];
const NO_SIGNS_HINT: &str = "globs have `*` (any text) and `?` (any character) only: write one for each form, as in `[\"delete_*\", \"purge_*\"]`";

impl Reader<'_> {
    /// A glob over names that is written as other programs write patterns. The URIs of resources have such characters.
    pub(super) fn glob(&mut self, path: &str, at: &Span, glob: &str) {
        if glob.contains(':') {
            return;
        }
        let mut signs: Vec<String> =
            NO_SIGNS.iter().filter(|sign| glob.contains(**sign)).map(|c| format!("`{c}`")).collect();
        let Some(last) = signs.pop() else { return };
        let (signs, stand) = match signs.is_empty() {
            true => (last, "stands for itself"),
            false => (format!("{} and {last}", signs.join(", ")), "stand for themselves"),
        };
        self.faults.warn(at, path, format!("{signs} {stand} in a glob"), NO_SIGNS_HINT);
    }

    /// `$NAME` where `${NAME}` was meant: nothing but braces makes a reference.
    pub(super) fn literal_variable(&mut self, path: &str, at: &Span, template: &Template) {
        let raw = template.raw();
        let is_name = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_uppercase())
                && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        };
        let last = raw.split_whitespace().last().unwrap_or_default();
        let Some(name) = last.strip_prefix('$').filter(|name| is_name(name)) else { return };
        let cause = format!("`${name}` is no reference, and goes to the source as it is written");
        self.faults.warn(at, path, cause, format!("write `${{{name}}}`, or `$${name}` for the text itself"));
    }

    /// Of a whole source.
    pub(super) fn unwise(&mut self, values: &Values, section: &str, id: &str) {
        for list in ["allow", "deny"] {
            let Some(at) = values.at(list) else { continue };
            for (index, glob) in values.texts(list).iter().enumerate() {
                let Some(rest) = glob.strip_prefix(id).and_then(|rest| rest.strip_prefix('/')) else { continue };
                let path = format!("{}[{index}]", dotted(section, list));
                let cause = "it begins with the id of the source, which is no part of the names that the source has";
                let known = self.faults.quoted(rest);
                let hint = format!("write {} alone", known.as_deref().unwrap_or("what comes after the slash"));
                self.faults.warn(at, path, cause, hint);
            }
        }
        if self.is_disabled {
            return;
        }
        if let (Some(at), Some(Reach::Http(remote))) = (values.at("url").cloned(), reach(values, self)) {
            self.unwise_remote(values, section, &at, &remote);
        }
    }

    fn unwise_remote(&mut self, values: &Values, section: &str, at: &Span, remote: &Remote) {
        if let Some(caution) = remote.caution(self.lookup) {
            self.faults.warn(at, dotted(section, "url"), caution, "use https://");
        }
        if let (Some(token), Some(at)) = (&remote.token, values.at("token")) {
            let path = dotted(section, "token");
            self.literal_variable(&path, at, token);
            let known = if token.has_commands() { None } else { token.expand(self.lookup).ok() };
            let scheme = known.as_ref().and_then(|known| known.value.trim_start().get(..7));
            if scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer ")) {
                let cause =
                    "it begins with `Bearer`, which `auth = \"bearer\"` sends before it: the source gets it twice";
                self.faults.warn(at, path, cause, "write the token alone");
            }
        }
        if let (Some(file), Some(at)) = (&remote.ca_file, values.at("ca_file"))
            && !file.has_commands()
            && let Ok(known) = file.expand_path(self.lookup)
            && !self.lookup.is_file(&from_base(&known.value, self.base))
        {
            let cause = "there is no such file, and without it nothing is connected to";
            self.faults.warn(at, dotted(section, "ca_file"), cause, "put the file there, or correct the path");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::warnings;

    fn check(text: &str, told: &[&str]) {
        assert_eq!(warnings(text), told, "{text}");
    }

    #[test]
    fn globs_that_mean_something_else_are_told() {
        let rule = |rule: &str| format!("[source.a]\ncommand = 'x'\n{rule}\n");
        let hint = super::NO_SIGNS_HINT;
        for (glob, signs) in [
            ("{delete,purge}_*", "`{`, `}` and `,` stand for themselves"),
            ("[d]elete_*", "`[` and `]` stand for themselves"),
            ("delete_all|purge", "`|` stands for itself"),
            ("/^delete_/", "`^` stands for itself"),
        ] {
            let told = format!("3: source.a.deny[0]: {signs} in a glob; hint: {hint}");
            check(&rule(&format!("deny = ['{glob}']")), &[&told]);
        }
        let told = "3: source.a.allow[1]: it begins with the id of the source, which is no part of the names that the source \
                    has; hint: write `read_*` alone";
        check(&rule("allow = ['x', 'a/read_*']"), &[told]);
        for fine in ["deny = ['file:///[x]/{a,b}', 'b/delete_*', '*']", "category.w.tools = ['a*']"] {
            check(&rule(fine), &[]);
        }
        let told = format!("5: credential.c.deny[0]: `|` stands for itself in a glob; hint: {hint}");
        check(&rule("[credential.c]\ntoken = '0123456789abcdef'\ndeny = ['a/x|y']").replace("\n\n", "\n"), &[&told]);
    }

    #[test]
    fn credentials_that_are_not_what_they_seem_are_told() {
        let http = |lines: &str| format!("[source.a]\nurl = 'https://x'\n{lines}\n");
        let literal = "`$T_1` is no reference, and goes to the source as it is written; hint: write `${T_1}`, or `$$T_1` for \
                       the text itself";
        check("[source.a]\ncommand = 'x'\nenv.TOKEN = '$T_1'\n", &[&format!("3: source.a.env.TOKEN: {literal}")]);
        check(&http("headers.A = 'Bearer $T_1'"), &[&format!("3: source.a.headers.A: {literal}")]);
        check(&http("auth = 'bearer'\ntoken = '$T_1'"), &[&format!("4: source.a.token: {literal}")]);
        check(&http("headers.A = 'US$ 3 $$T $t'"), &[]);
        let twice = "4: source.a.token: it begins with `Bearer`, which `auth = \"bearer\"` sends before it: the source gets \
                     it twice; hint: write the token alone";
        check(&http("auth = 'bearer'\ntoken = 'Bearer x'"), &[twice]);
        let gone = "3: source.a.ca_file: there is no such file, and without it nothing is connected to; hint: put the file \
                    there, or correct the path";
        check(&http("ca_file = 'gone.pem'"), &[gone]);
        check(&http("ca_file = 'key'"), &[]);
        let open = "2: source.a.url: its credentials go over plain http:// to another machine, where others can read them; \
                    hint: use https://";
        check("[source.a]\nurl = 'http://x/?q=${T}'\n", &[open]);
        check("[source.a]\nurl = 'http://x/?api_key=abcdefgh'\n", &[open]);
        check("[source.a]\nurl = 'http://x/?q=abcdefgh'\n", &[]);
        check("[source.a]\nurl = 'http://x/?q=${T}'\nenabled = false\n", &[]);
    }
}
