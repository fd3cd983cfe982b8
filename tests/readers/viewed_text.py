"""Lets the viewer claude-code-transcripts make its pages of transcripts, and prints their text."""

import contextlib
import html.parser
import io
import pathlib
import sys
import tempfile

import claude_code_transcripts


class Text(html.parser.HTMLParser):
    skipped = 0

    def handle_starttag(self, tag, attrs):
        self.skipped += tag in ("script", "style")

    def handle_endtag(self, tag):
        self.skipped -= tag in ("script", "style")

    def handle_data(self, data):
        if not self.skipped:
            sys.stdout.write(data)


for transcript in sys.argv[1:]:
    with tempfile.TemporaryDirectory() as pages:
        with contextlib.redirect_stdout(io.StringIO()):
            claude_code_transcripts.generate_html(transcript, pages, github_repo="owner/name")
        for page in sorted(pathlib.Path(pages).glob("*.html")):
            Text().feed(page.read_text(encoding="utf-8"))
