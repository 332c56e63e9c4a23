
# Values of arguments that the generated function above does not know. A running server is asked quietly: without one, or without permission,
# nothing is offered.
_sluice_ask() {
    local at=() index
    for ((index = 2; index < COMP_CWORD; index++)); do
        case "${COMP_WORDS[index]}" in
            --server|-c|--config) at=("${COMP_WORDS[index]}" "${COMP_WORDS[index + 1]}") ;;
        esac
    done
    timeout 2 "${COMP_WORDS[0]}" top --json "${at[@]}" 2> /dev/null | grep -oE "\"$1\": ?\"[^\"\\]*\"" | sed 's/^[^:]*: *"//; s/"$//' | sort -u
}

_sluice_values() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD - 1]}" values="" before="" IFS=$' \t\n'
    case "${COMP_WORDS[1]} $prev" in
        "watch --items"|"watch -i")
            # A list: what is before the last comma stays, and so does a "-".
            before="${cur%"${cur##*[,-]}"}"
            values="@ITEMS@"
            ;;
        *" --server"|*" -c"|*" --config") ;;
        "retire "*) [[ $cur == -* ]] || values="$(_sluice_ask script)" ;;
        "end "*) [[ $cur == -* ]] || values="$(_sluice_ask id)" ;;
        "passwd "*)
            # The user comes after the file.
            if [[ $cur != -* && $prev != -* && -f $prev && -r $prev ]]; then
                values="$(sed -n 's/^\([^#:]*\):.*/\1/p' "$prev" 2> /dev/null)"
            fi
            ;;
    esac
    if [[ -z $values ]]; then
        _sluice "$@"
        return
    fi
    local IFS=$'\n' value
    COMPREPLY=()
    for value in $(tr ' ' '\n' <<< "$values"); do
        [[ $before$value == "$cur"* ]] || continue
        # A name with other letters must not become a part of the command.
        [[ $value != *[!A-Za-z0-9_./:@,+=~-]* ]] || value="$(printf '%q' "$value")"
        COMPREPLY+=("$before$value")
    done
}

complete -F _sluice_values -o bashdefault -o default sluice
