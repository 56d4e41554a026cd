//! The dashboard's page.

/// The page, whose scripts and styles carry this nonce.
pub fn page(nonce: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>zsh-tool</title>\n\
         <style nonce=\"{nonce}\">body {{ font: 1rem sans-serif }}</style>\n\
         <h1>zsh-tool</h1></html>\n"
    )
}
