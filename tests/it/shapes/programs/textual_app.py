"""A full-screen program of textual."""

from textual.app import App
from textual.widgets import Footer, Header, Label


class Menu(App):
    BINDINGS = [("q", "quit", "Quit")]

    def compose(self):
        yield Header()
        yield Label("Choose with the keys")
        yield Footer()


Menu().run()
