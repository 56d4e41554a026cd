//! The dashboard: one page with inline style and script, which loads no other files. The page
//! contains no data, and requests it from the server with the token. Pure.
//!
//! The scripts are joined into one module in the order of [`SCRIPTS`]: later files use definitions
//! of earlier ones.

/// The page, with the placeholders `{{nonce}}`, `{{style}}` and `{{script}}`.
const PAGE: &str = include_str!("../../data/dashboard/index.html");
const STYLE: &str = include_str!("../../data/dashboard/dashboard.css");
const SCRIPTS: [&str; 7] = [
    include_str!("../../data/dashboard/words.js"),
    include_str!("../../data/dashboard/elements.js"),
    include_str!("../../data/dashboard/input.js"),
    include_str!("../../data/dashboard/list.js"),
    include_str!("../../data/dashboard/details.js"),
    include_str!("../../data/dashboard/plots.js"),
    include_str!("../../data/dashboard/dashboard.js"),
];

/// The page. Its style and scripts carry the nonce of the Content-Security-Policy, without
/// which browsers ignore them.
pub(crate) fn page(nonce: &str) -> String {
    PAGE.replace("{{nonce}}", nonce)
        .replace("{{style}}", STYLE)
        .replace("{{script}}", &SCRIPTS.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text that would load something, or that the policy forbids.
    const FORBIDDEN: &[&str] = &["http://", "https://", " style=", "@import", "url(", "src="];
    /// The namespace of SVG's elements, which browsers do not fetch.
    const SVG_NAMESPACE: &str = "http://www.w3.org/2000/svg";

    #[test]
    fn every_style_and_script_carries_the_nonce() {
        let page = page("c2VjcmV0");
        let parts = page.matches("<script").count() + page.matches("<style").count();
        assert_eq!(page.matches(r#"nonce="c2VjcmV0""#).count(), parts);
        assert_eq!(parts, 3);
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        let page = page("c2VjcmV0");
        assert!(!page.contains("{{"), "a placeholder is left");
        assert_eq!(page.matches("</script>").count(), 2);
        assert_eq!(page.matches("</style>").count(), 1);
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = page("c2VjcmV0").replace(SVG_NAMESPACE, "");
        for forbidden in FORBIDDEN {
            assert!(!page.contains(forbidden), "the page has {forbidden}");
        }
    }

    #[test]
    fn no_text_becomes_markup() {
        for writing in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!page("").contains(writing), "the script uses {writing}");
        }
    }
}
