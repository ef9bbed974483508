"""Other models: K2 and Kimi-Linear run, a checkpoint is read at its own size and looked into."""

import json
import re

import pytest
from playwright.sync_api import expect


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small K2, as an operator would have it."""
    from safetensors.torch import save_file

    from model.load import build, upstream_state

    place = tmp_path_factory.mktemp("models") / "our-k2"
    place.mkdir()
    lm = build("tiny-k2", seed=9)
    save_file(upstream_state(lm), place / "model.safetensors")
    (place / "config.json").write_text(json.dumps(lm.config.to_hf()))
    return place


def live(page):
    return page.locator(".st-key-live")


@pytest.mark.parametrize(
    ("source", "address", "tap"),
    [
        ("tiny-k2", "?model=k2&node=mla/rotate", "self_attn.k_rotated"),
        ("tiny-kimi-linear", "?model=kimi-linear&node=kda/log_decay", "self_attn.log_decay"),
    ],
)
def test_a_prompt_runs_on_the_other_models(visitor, source, address, tap):
    page = visitor.open(f"{address}&source={source}&prompt=good+morning&new=2")
    expect(live(page)).to_contain_text(tap, timeout=60_000)
    expect(live(page)).to_contain_text("✓ pass", timeout=30_000)
    expect(live(page)).to_contain_text(source)
    expect(page.locator(".st-key-prompt textarea")).to_have_value("good morning")
    assert not visitor.errors


def test_the_running_model_is_chosen_in_the_sidebar(visitor):
    page = visitor.open("?model=k2&node=mla/kv_cache")
    expect(live(page).locator("canvas").first).to_be_visible(timeout=30_000)
    # by keyboard: on a busy machine a first click of the mouse may open and close the list
    page.locator(".st-key-source").get_by_role("combobox").press("ArrowDown")
    page.get_by_role("option", name=re.compile("tiny-k2")).click()
    expect(page.locator(".st-key-source").get_by_role("combobox")).to_have_value(
        re.compile("^tiny-k2")
    )
    page.locator(".st-key-run button").click()
    page.wait_for_url(re.compile("source=tiny-k2"), timeout=30_000)
    expect(live(page)).to_contain_text("tiny-k2, seeded random weights", timeout=60_000)


def test_a_model_is_read_at_its_own_size_and_left_again(visitor):
    page = visitor.open("?model=k2&node=mla/kv_cache&source=tiny-k2")
    page.locator('[data-handle="model"] button[data-model="tiny-k2"]').click()
    page.wait_for_url(re.compile("model=tiny-k2"), timeout=10_000)
    expect(page.locator(".ks-crumb").first).to_contain_text("4 transformer blocks", timeout=10_000)
    expect(page.locator('[data-section="cost"]')).to_contain_text("as it runs here")
    page.go_back()
    expect(page.locator(".ks-crumb").first).to_contain_text("61 transformer blocks", timeout=10_000)


def test_sizes_of_the_running_family_are_one_click_away(visitor):
    page = visitor.open("?model=k3&node=kda/state&source=tiny-k2")
    notice = page.locator('[data-mount="above"] [data-part="notices"]')
    expect(notice).to_contain_text("No layer of tiny-k2, which runs here, has Recurrent state")
    link = live(page).locator('a[data-switch="k2"]')
    expect(link).to_be_visible(timeout=60_000)
    link.click()
    page.wait_for_url(re.compile("model=k2"), timeout=10_000)
    expect(page.locator(".ks-crumb").first).to_contain_text("61 transformer blocks", timeout=10_000)
    assert not visitor.errors


def test_a_checkpoint_of_the_operator_runs_and_shows_its_weights(app_with, chromium_visit, folder):
    server = app_with(KIMISCOPE_SOURCES=str(folder))
    visitor = chromium_visit(server)
    page = visitor.open("?model=our-k2&node=mla/kv_cache&source=our-k2")
    expect(live(page)).to_contain_text("Nothing has run on our-k2 yet", timeout=30_000)
    expect(page.locator(".ks-crumb").first).to_contain_text("4 transformer blocks")
    page.goto(f"{server.url}/?view=weights&checkpoint=our-k2&tensors=*layers.1.*q_a_proj.weight")
    button = page.locator(".st-key-weights-read button")
    expect(button).to_contain_text("Read its values", timeout=30_000)
    button.click()
    expect(live(page)).to_contain_text("singular values", timeout=30_000)
    expect(live(page).locator("canvas").first).to_be_visible(timeout=15_000)
    live(page).get_by_role("radio", name="Balance of routers").click()
    page.wait_for_url(re.compile("look=router"), timeout=15_000)
    live(page).get_by_role("button", name="Read them").click()
    expect(live(page)).to_contain_text("bias[layer 1, expert 0]", timeout=30_000)
    page.reload()
    # the answer is kept, so that the address alone shows it again
    expect(live(page)).to_contain_text("bias[layer 1, expert 0]", timeout=30_000)
    assert str(folder.parent) not in page.content()
    assert not visitor.errors


def test_weights_are_reached_from_every_page_and_a_wrong_name_is_answered(visitor):
    page = visitor.open("?node=mla/kv_cache")
    page.locator('a[data-view="weights"]').first.click()
    expect(page.locator("h1")).to_have_text("Weights under the microscope", timeout=10_000)
    expect(live(page)).to_contain_text("No checkpoint is open", timeout=15_000)
    page.goto(f"{visitor.base}/?view=weights&checkpoint=not/here")
    expect(live(page)).to_contain_text("Not read", timeout=60_000)
    expect(page.locator("h1")).to_have_text("Weights under the microscope")
