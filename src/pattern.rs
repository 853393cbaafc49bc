//! Owns the question whether a regular expression is one for JavaScript with its `u` flag, which is how clients compile
//! those of a schema. It matches nothing.

/// Whether JavaScript compiles `pattern`.
pub fn is_sound(pattern: &str) -> bool {
    regress::Regex::with_flags(pattern, "u").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_judged_as_javascript_judges_them() {
        for pattern in [
            "",
            "^[a-z0-9_-]{1,64}$",
            r"^\d{4}-\d{2}-\d{2}T.*?$",
            r"(?:a|b)+?(?<year>\d+)\k<year>(x)\2",
            r"(?=a)(?!b)(?<=c)(?<!d)[^\]\\-]",
            r"[\w.+-]+@[\w-]+\.[\w.]+\/",
            r"\p{L}\p{Lu}\P{Script=Greek}\u{1F600}[\ud83d\ude00-\ud83d\ude4f]\x41\cA\0",
            "[]a[b-]|[^]",
            "查询{2,}",
        ] {
            assert!(is_sound(pattern), "{pattern}");
        }
        for pattern in [
            "(",
            ")",
            "[",
            "a)",
            "[a",
            "*",
            "+a",
            "a**",
            "a++",
            "a{2,1}",
            "a{,2}",
            "{",
            "}",
            "]",
            r"\",
            r"\A",
            r"\Z",
            r"\-",
            r"\_",
            r"\x4",
            r"\u12",
            "[b-a]",
            r"[\d-z]",
            "(?i)a",
            "(?P<n>a)",
            "(?<n>a)(?<n>b)",
            r"\1",
            r"\k<n>",
            "(?>a)",
            "(?=a)*",
            "^*",
            "a|*",
            r"\p{",
            r"\p",
            r"\p{Foo=x}",
            "[[:alpha:]]",
            r"\c1",
            r"\01",
            "a(?#c)",
        ] {
            assert!(!is_sound(pattern), "{pattern}");
        }
    }
}
