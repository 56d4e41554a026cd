//! A program of the user's: `executors.NAME.{argv, env, prompt_by}` of the configuration.
//!
//! Nothing is known of it but its command line: all of its stdout is its final answer, and
//! it keeps nothing. Which model was asked for stands in `ONESHOT_MODEL`.

use super::launch::PromptBy;

/// Stands for the prompt in a word of `argv`; without it the prompt is the last word.
const PLACEHOLDER: &str = "{prompt}";

pub(super) fn arguments(words: &[String], prompt_by: PromptBy, prompt: &str) -> Vec<String> {
    if prompt_by == PromptBy::Stdin {
        return words.to_vec();
    }
    let mut is_placed = false;
    let mut filled: Vec<String> = words
        .iter()
        .map(|word| match word.split_once(PLACEHOLDER) {
            Some((before, after)) => {
                is_placed = true;
                [before, prompt, after].concat()
            }
            None => word.clone(),
        })
        .collect();
    if !is_placed {
        filled.push(prompt.to_owned());
    }
    filled
}
