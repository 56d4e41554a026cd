//! Questions of programs, with and without echo.

use super::session::Session;
use crate::support::env::Env;

#[test]
fn what_the_shell_reads_is_asked_and_answered() {
    let env = Env::new();
    let shell = Session::start(&env, "read 'name?Your name: '; echo \"Hello $name.\"");
    shell.asks("Your name: ").enter("Ada");
    assert_eq!(shell.ends_with_exit(0), "Your name: Ada\nHello Ada.");
}

#[test]
fn a_new_password_is_asked_twice_and_never_shown() {
    let env = Env::new();
    let command = "stty -echo; printf 'New password: '; read -r first; echo; \
                   printf 'Retype new password: '; read -r second; stty echo; echo; \
                   [[ $first == $second ]] && echo 'password updated successfully'";
    let passwd = Session::start(&env, command);
    passwd.asks_for_password("New password: ").enter("correct horse");
    passwd.asks_for_password("Retype new password: ").enter("correct horse");
    let text = passwd.ends_with_exit(0);
    let wanted = "New password: \nRetype new password: \npassword updated successfully";
    assert_eq!(text, wanted);
}

#[test]
fn apt_get_asks_before_it_changes_anything() {
    let env = Env::new();
    // Any package that is there will do; this one is, since another test runs it. Without
    // its locks apt-get asks as well while it runs elsewhere, and asks anyone.
    let command = "apt-get -o Debug::NoLocking=1 remove lolcat";
    let apt = Session::start(&env, command);
    apt.asks("Do you want to continue? [Y/n] ").enter("n");
    let text = apt.ends_with_exit(1);
    assert!(
        text.starts_with("Reading package lists... Done\nBuilding dependency tree... Done\n"),
        "{text}"
    );
    assert!(text.ends_with("Do you want to continue? [Y/n] n\nAbort."), "{text}");
}

#[test]
fn a_dialog_is_read_and_answered() {
    let env = Env::new();
    let command = "dialog --yesno 'Go on with it?' 7 40; echo answer=$?";
    let dialog = Session::start(&env, command);
    dialog.shows(|text| text.contains("Go on with it?") && text.contains("< Yes >     < No  >"));
    dialog.press("\t").press("\r");
    let text = dialog.ends_with_exit(0);
    assert!(text.ends_with("answer=1"), "{text}");
}
