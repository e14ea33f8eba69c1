# Sourced by the scripts of this folder. Bazel and the caches need HOME, which a container or a timer may leave unset.
if [[ -z ${HOME:-} ]]; then
  HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
  [[ -n $HOME ]] || { echo "error: HOME is not set, and the user has no home; set it to a folder that can be written" >&2; exit 1; }
  export HOME
fi
