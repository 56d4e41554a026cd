//! A shape: a command of a kind that agents run, and what is to be said of it.

/// A command, and the verdict that it is to get.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// A name that no other shape of its table has.
    pub name: &'static str,
    /// The text for zsh. Its surroundings are those of [`super::workshop`].
    pub command: &'static str,
    /// What its input is.
    pub input: Input,
    /// What is to be said of it.
    pub expected: Expected,
    /// What has to be there first, in this order.
    pub first: &'static [First],
    /// A command that ends what the task leaves behind by design, such as a daemon.
    pub afterwards: Option<&'static str>,
    /// It takes as much of a core as it gets, so that few such shapes run at once.
    pub computes: bool,
    /// It prints the same again and again, which is to end no deadline that moves.
    pub repeats: bool,
}

/// What the input of a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// None: `/dev/null`.
    Nothing,
    /// A pipe that stays open.
    OpenPipe,
    /// A terminal.
    Terminal,
}

/// What is to be said of a shape.
#[derive(Debug, Clone, Copy)]
pub enum Expected {
    /// It is well, and is left alone.
    Healthy {
        /// The statuses that are right; at least one.
        statuses: &'static [&'static str],
        /// One of these words stands in the evidence, unless there are none.
        says: &'static [&'static str],
    },
    /// It does not end by itself and does nothing that is worth waiting for.
    Stuck {
        /// One of these words stands in the evidence.
        says: &'static [&'static str],
    },
    /// It waits for `input` or for a `password`.
    Waits(&'static str),
    /// It ends by itself.
    Ends {
        /// The status of the task then.
        status: &'static str,
        /// Its exit code.
        code: i64,
    },
}

/// What has to be there before a shape starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// This command has run to its end in the shape's directory.
    Ran(&'static str),
    /// Another task of the same server runs this command there, and has printed `held`.
    Holds(&'static str),
    /// So many runs of the shape's command are remembered, each of which took so long.
    Remembered {
        /// How many.
        runs: u32,
        /// How long each took, in milliseconds.
        milliseconds: u32,
    },
}

/// A shape that is well; `statuses` and `says` as in [`Expected::Healthy`].
pub const fn healthy(
    name: &'static str,
    command: &'static str,
    statuses: &'static [&'static str],
    says: &'static [&'static str],
) -> Shape {
    shape(name, command, Expected::Healthy { statuses, says })
}

/// A shape that is stuck; `says` as in [`Expected::Stuck`].
pub const fn stuck(
    name: &'static str,
    command: &'static str,
    says: &'static [&'static str],
) -> Shape {
    shape(name, command, Expected::Stuck { says })
}

/// A shape that waits for input, on a terminal.
pub const fn asks(name: &'static str, command: &'static str) -> Shape {
    shape(name, command, Expected::Waits("input")).on_terminal()
}

/// A shape that waits for a password, on a terminal.
pub const fn asks_secretly(name: &'static str, command: &'static str) -> Shape {
    shape(name, command, Expected::Waits("password")).on_terminal()
}

/// A shape that ends by itself.
pub const fn ends(
    name: &'static str,
    command: &'static str,
    status: &'static str,
    code: i64,
) -> Shape {
    shape(name, command, Expected::Ends { status, code })
}

const fn shape(name: &'static str, command: &'static str, expected: Expected) -> Shape {
    Shape {
        name,
        command,
        input: Input::Nothing,
        expected,
        first: &[],
        afterwards: None,
        computes: false,
        repeats: false,
    }
}

impl Shape {
    /// The same on a terminal.
    pub const fn on_terminal(mut self) -> Shape {
        self.input = Input::Terminal;
        self
    }

    /// The same on a pipe that stays open.
    pub const fn on_open_pipe(mut self) -> Shape {
        self.input = Input::OpenPipe;
        self
    }

    /// The same once this is there.
    pub const fn after(mut self, first: &'static [First]) -> Shape {
        self.first = first;
        self
    }

    /// The same with a command that ends what it leaves behind.
    pub const fn cleaned_by(mut self, command: &'static str) -> Shape {
        self.afterwards = Some(command);
        self
    }

    /// The same, one of those that few of run at once.
    pub const fn computing(mut self) -> Shape {
        self.computes = true;
        self
    }

    /// The same, one that prints the same again and again.
    pub const fn repeating(mut self) -> Shape {
        self.repeats = true;
        self
    }

    /// The runs that are to be remembered: how many, and how long each took in
    /// milliseconds.
    pub fn remembered(&self) -> Option<(u32, u32)> {
        self.first.iter().find_map(|first| match first {
            First::Remembered { runs, milliseconds } => Some((*runs, *milliseconds)),
            First::Ran(_) | First::Holds(_) => None,
        })
    }
}
