//! Prompts and menus of programs in many languages.

use super::shape::{First, Shape, asks, asks_secretly};
use super::spinners::NODE;

const DISK: &[First] = &[First::Ran("truncate -s 64M disk")];

/// The table.
pub const SHAPES: &[Shape] = &[
    // Calculators and interpreters
    asks("dc", "dc"),
    asks("dc on a pipe", "dc").on_open_pipe(),
    asks("calc", "calc"),
    asks("units", "units"),
    asks("guile", "guile"),
    asks("sbcl", "sbcl --no-userinit"),
    asks("swipl", "swipl -q"),
    asks("gnuplot", "gnuplot"),
    asks("gforth", "gforth"),
    asks("newlisp", "newlisp"),
    asks("jimsh", "jimsh"),
    asks("tclsh", "tclsh"),
    asks("gawk on a pipe", "gawk '{ print }'").on_open_pipe(),
    asks("php -a", "php -a"),
    asks("erl", "erl"),
    asks("iex", "iex"),
    asks("jshell", "jshell"),
    asks("jdb", "jdb"),
    asks("pry", "pry --no-pager -f"),
    asks("xonsh", "xonsh --no-rc"),
    asks("ptpython", "ptpython"),
    asks("pdb", "print 'x = 1' > a.py; python3 -m pdb a.py"),
    asks("pudb", "print 'x = 1' > a.py; python3 -m pudb a.py"),
    asks("pytest --pdb", "print 'def test_a(): assert 0' > test_a.py; pytest -q --pdb"),
    asks("node inspect", "print 'let x = 1' > a.js; node inspect --port=0 a.js"),
    asks("perl -d", "perl -d -e 1"),
    asks("django shell", "django-admin startproject site_of .; python3 manage.py shell"),
    // Shells
    asks("ksh", "ksh -i"),
    asks("fish", "fish --no-config"),
    asks("tcsh", "tcsh -f"),
    asks("mksh", "mksh -i"),
    // Questions and menus
    asks("clack select", "node clack_select.mjs").after(NODE),
    asks("inquirer select", "node inquirer.mjs").after(NODE),
    asks("inquirer password", "node inquirer.mjs password").after(NODE),
    asks("enquirer confirm", "node $PROGRAMS/enquirer.js"),
    asks("yarn init", "yarn init"),
    asks("pick", "python3 -c 'import pick; pick.pick([\"a\", \"b\"], \"Which?\")'"),
    asks(
        "InquirerPy",
        "python3 -c 'from InquirerPy import inquirer; inquirer.select(message=\"Which?\", choices=[\"a\", \"b\"]).execute()'",
    ),
    asks("typer confirm", "python3 -c 'import typer; typer.confirm(\"Delete everything?\")'"),
    asks(
        "django createsuperuser",
        "django-admin startproject site_of .; python3 manage.py migrate -v 0; python3 manage.py createsuperuser",
    ),
    asks("java Scanner", "java -cp $BUILT Situations ask"),
    asks("go Scanln", "situations-go ask"),
    asks("rust read_line", "situations-rs ask"),
    asks("mono ReadLine", "mono $BUILT/Situations.exe ask"),
    asks("ruby gets a line", "ruby -e 'print \"Gem name: \"; gets'"),
    asks("php readline", "php -r 'readline(\"Package name: \");'"),
    asks("elixir gets", "elixir -e 'IO.gets(\"App name? \")'"),
    asks("make whose recipe asks", "print 'all:\\n\\t@printf \"Sure? \"; read x' > Makefile; make"),
    asks(
        "npm whose script asks",
        "print '{\"scripts\": {\"ask\": \"printf Sure?; read x\"}}' > package.json; npm run ask",
    ),
    asks(
        "ant input",
        "print '<project default=\"a\"><target name=\"a\"><input message=\"Deploy?\"/></target></project>' > build.xml; ant -q",
    ),
    asks("aspell", "print 'helo wrld' > text; aspell check text"),
    asks("fdisk", "fdisk disk").after(DISK),
    asks("parted", "parted disk").after(DISK),
    asks("cfdisk", "cfdisk -z disk").after(DISK),
    asks("lftp prompt", "lftp"),
    asks("mc", "mc --nosubshell"),
    asks("s-nail", "s-nail -s subject ada@localhost"),
    asks("mutt", "mutt -n -F /dev/null -f box")
        .after(&[First::Ran("print 'From a@b Thu Jan  1 00:00:00 2020\\n\\nhello' > box")]),
    asks(
        "tig",
        "git init -q .; git -c user.name=a -c user.email=a@b commit -qm one --allow-empty; tig",
    ),
    asks("ncdu", "ncdu ."),
    asks("w3m", "print hello > a.html; w3m a.html"),
    // Secrets
    asks_secretly("keytool", "keytool -genkeypair -keyalg RSA -keystore k -dname CN=a"),
    asks_secretly("ssh-add", "ssh-keygen -q -t ed25519 -N secret -f key; ssh-agent ssh-add key"),
    asks_secretly("openssl enc", "print a > text; openssl enc -aes-256-cbc -in text -out secret"),
    asks_secretly("initdb -W", "sh $PROGRAMS/as_user.sh initdb -W -D data"),
    asks_secretly(
        "typer password",
        "python3 -c 'import typer; typer.prompt(\"Password\", hide_input=True)'",
    ),
    asks_secretly("ruby getpass", "ruby -rio/console -e '$stdin.getpass(\"Password: \")'"),
];
