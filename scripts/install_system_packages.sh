#!/usr/bin/env bash
# Install what the report's browser tests use, where that is possible: Chromium, and npm, which installs axe-core.
#
# Does nothing, and never fails, without apt-get, without root, or without network: those tests then skip with a reason.
set -u

skip() {
  echo "No browser was installed ($1); the browser tests will be skipped."
  exit 0
}

if command -v chromium >/dev/null && command -v chromedriver >/dev/null && command -v npm >/dev/null; then
  echo "chromium, chromedriver and npm are there."
  exit 0
fi
command -v apt-get >/dev/null || skip "apt-get is missing"
[ "$(id -u)" -eq 0 ] || skip "not root"

export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
packages=(chromium chromium-driver fonts-dejavu-core)
command -v npm >/dev/null || packages+=(nodejs npm)
echo "Installing ${packages[*]} ..."
apt-get update -qq >"$log" 2>&1 || { tail -n 3 "$log"; skip "apt-get update failed"; }
timeout 600 apt-get install -y -qq --no-install-recommends "${packages[@]}" >"$log" 2>&1 ||
  { tail -n 3 "$log"; skip "apt-get install failed"; }
