"""A full-screen menu that waits for a key."""

import curses


def main(screen):
    screen.addstr(1, 2, "Press a key to choose")
    screen.refresh()
    screen.getch()


curses.wrapper(main)
