#!/usr/bin/env bash
# Checks the model of the commit protocol and of recovery, commit.pml, with spin. What it says: README.md.
#
#   run.sh               everything that CI wants: the good model in every configuration, then every fault
#   run.sh good          the good model only
#   run.sh faults        the faults only
#   run.sh NAME...       these configurations or faults; run.sh list names them
#   run.sh tell FAULT    the shortest counterexample to a fault, in words
#   run.sh deep          larger configurations of the good model, a quarter of an hour
#
# Exit status: 0 only if every search of the good model was exhaustive and found nothing, and every fault was
# found by what it must be found by; 1 if not; 2: bad arguments, or a tool is missing.
#
# One process at a time. Environment: MEMORY, the limit in MiB (2400); CC, a C compiler (gcc); TMPDIR.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
memory=${MEMORY:-2400}
cc=${CC:-gcc}

# name, sizes. Together they have in them the configuration of every fault.
good='
kinds      -DK0=Wx+Wxy+RxWy -DK1=Wx+Wxy+RxWy+RyWx -DCRASHES=1 -DRCR=1
late       -DK0=Ux+RxUy     -DK1=Wx+RyUx          -DCRASHES=1 -DRCR=1
readers    -DK0=Wx+RyWx     -DK1=Rx+Rxy           -DCRASHES=1 -DRCR=1
takeovers  -DK0=Wxy         -DK1=Wx               -DCRASHES=1 -DRCR=2
deaths     -DK0=Wxy+RxWy    -DK1=Wxy+RyWx         -DCRASHES=2
reruns     -DK0=Wxy+RxWy    -DK1=Wx+Wxy+RyWx      -DA0=2 -DA1=2
recover    -DK0=Wxy         -DK1=Wxy              -DA0=2 -DCRASHES=1 -DRCR=1
twice      -DK0=Wx+RyWx     -DK1=Wx+Wy+Rx+Rxy     -DA1=2
slots      -DK0=Wx+Wxy      -DK1=Wxy              -DA0=2 -DCRASHES=1 -DSLOTS=1
'
deep='
kinds2     -DK0=Wx+Wxy+RxWy+Ux+RxUy -DK1=Wx+Wxy+RxWy+RyWx+Ux+RyUx -DCRASHES=1 -DRCR=1
deaths2    -DK0=Wxy+RxWy    -DK1=Wxy+RyWx         -DCRASHES=2 -DRCR=1
reruns2    -DK0=Wxy         -DK1=Wxy              -DA0=2 -DA1=2 -DCRASHES=1 -DRCR=1
reruns3    -DK0=Wxy         -DK1=Wxy              -DA0=3 -DCRASHES=1
'
# name | sizes | what must be violated | what it is
faults='
1     | -DK0=Wx   -DK1=Wx -DA1=2              | an image read under its lock is torn          | an abort frees a lock that another holds
2     | -DK0=RxWy -DK1=RyWx                   | not strictly serializable                     | validation looks at versions only
3     | -DK0=RxUy -DK1=RyUx                   | not strictly serializable                     | reads are validated in one batch with the locking
4     | -DK0=Ux   -DK1=Wx -DCRASHES=1         | the copies differ                             | an undo image is logged that was not read under the lock
5     | -DK0=RxWy -DK1=Wx -DCRASHES=1         | recorded as committed, and is not             | an aborted entry is not marked
7     | -DK0=Wx   -DK1=Wx -DCRASHES=1         | a lock is left that nobody frees              | nobody frees the locks of who died before he logged
12    | -DK0=Wx   -DK1=Rx                     | an image that is not committed is accepted    | images are written without pending
15    | -DK0=Wx   -DK1=Wx -DCRASHES=1         | an acknowledged commit is lost                | the answer comes before the acknowledgements
21    | -DK0=Wx   -DK1=Wx -DCRASHES=1         | an image read under its lock is torn          | recovery does not fence
25    | -DK0=Wx   -DK1=Wx                     | a copy is torn                                | backups are unlocked too
26    | -DK0=Wx   -DK1=Wx -DCRASHES=1         | an image read under its lock is torn          | recovery takes a torn image for a new one
27    | -DK0=Wx   -DK1=Wx -DCRASHES=1 -DRCR=1 | a copy is torn                                | a recoverer that stalled is not fenced
30    | -DK0=Wx   -DK1=Wx -DCRASHES=1         | an image read under its lock is torn          | a fence answers while a WRITE is still going on
32    | -DK0=RxWy -DK1=Wxy -DCRASHES=1        | recorded as committed, and is not             | an aborted entry is marked after its locks went
33    | -DK0=Wx   -DK1=Wx -DCRASHES=1         | a cell is left pending                        | recovery looks at locks only, not at pending
34    | -DK0=Wx   -DK1=Wx -DCRASHES=1         | a copy is torn                                | recovery unlocks what it has undone with 16 bytes
skip  | -DK0=RyWx -DK1=Wy+Rx -DA1=2           | not strictly serializable                     | a single read is not validated though its lock word is not 0
fence | -DK0=Wx   -DK1=Wx -DCRASHES=1         | the copies differ                             | logs are read when one node of two has fenced
touch | -DK0=Wx   -DK1=Wx -DCRASHES=1 -DRCR=1 | two recoverers decide differently             | recovery records the outcome after it has touched cells
log   | -DK0=Wx   -DK1=Wx -DCRASHES=1         | an image read under its lock is torn          | the log entry is written behind the cells
'

# lines TABLE: its lines. names TABLE: the first words of these.
lines() { sed '/^$/d' <<<"$1"; }
names() { lines "$1" | awk '{ print $1 }'; }
line() { lines "$1" | awk -v name="$2" '$1 == name'; }

missing() {
	echo "run.sh: $1 is not there. Debian and Ubuntu: apt-get install $2" >&2
	exit 2
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# build DIR "SPIN FLAGS" "C FLAGS": makes DIR/pan.
build() {
	mkdir -p "$1"
	cp "$here/commit.pml" "$1"
	# shellcheck disable=SC2086 # flags are words
	(cd "$1" && spin -a $2 commit.pml >spin.log && nice -n 19 "$cc" -w -DSAFETY -DCOLLAPSE -DVECTORSZ=1024 -DMEMLIM="$memory" $3 -o pan pan.c) >"$1/build.log" 2>&1 && return
	cat "$1/build.log" "$1/spin.log" >&2
	return 1
}

figure() { sed -n "s/$2/\1/p" "$1" | head -1; } # FILE EXPRESSION

row() { printf '%-10s  %-5s  %10s  %5s  %4s  %s\n' "$@"; }

# check NAME SIZES: searches all of the good model. Depth first, with partial order reduction.
check() {
	local dir=$scratch/$1 began=$SECONDS states depth verdict='no error, exhaustive'
	build "$dir" "$2" -O1 || return 1
	(cd "$dir" && nice -n 19 ./pan -m20000 -w24 >pan.log 2>&1) || true
	states=$(figure "$dir/pan.log" '^ *\([0-9]*\) states, stored.*')
	depth=$(figure "$dir/pan.log" '.*depth reached \([0-9]*\), errors.*')
	if ! grep -q ', errors: 0$' "$dir/pan.log"; then
		verdict='FAILED: there is an error'
	elif grep -qiE 'not completed|too small|out of memory|memory limit|resizing' "$dir/pan.log" || ! grep -q '^Full statespace search' "$dir/pan.log" ||
		! grep -q '+ Partial Order Reduction' "$dir/pan.log" || ((${states:-0} < 1000)); then
		verdict='FAILED: the search was not exhaustive'
	fi
	row "$1" good "${states:-0}" "${depth:-0}" $((SECONDS - began)) "$verdict"
	[[ $verdict == no* ]] && { rm -rf "$dir"; return; }
	cat "$dir/pan.log"
	if [[ -f $dir/commit.pml.trail ]]; then # shellcheck disable=SC2086
		(cd "$dir" && spin -t -T $2 commit.pml | tail -5) || true
	fi
	return 1
}

# find NAME: searches breadth first, so what it finds is as short as can be, and tells it.
find_() {
	local name=$1 flags must what dir=$scratch/$1 began=$SECONDS states tale steps=0 verdict
	IFS='|' read -r _ flags must what < <(line "$faults" "$name")
	must=$(sed 's/^ *//; s/ *$//' <<<"$must")
	local switch=-DF${name^^}
	build "$dir" "$switch $flags -DTELL -DSHORTEST" '-O0 -DBFS' || return 1
	(cd "$dir" && nice -n 19 ./pan -w22 >pan.log 2>&1) || true
	states=$(figure "$dir/pan.log" '^ *\([0-9]*\) states, stored.*')
	if [[ ! -f $dir/commit.pml.trail ]]; then
		verdict='NOT FOUND:'
	else # shellcheck disable=SC2086
		tale=$(cd "$dir" && spin -t -T "$switch" $flags -DTELL -DSHORTEST commit.pml | sed '/^VIOLATED/q')
		verdict=$(tail -1 <<<"$tale")
		steps=$(($(wc -l <<<"$tale") - 1))
		case $verdict in
		"VIOLATED: $must") verdict="$must:" ;;
		*) verdict="FOUND BY SOMETHING ELSE, $verdict, not $must:" ;;
		esac
	fi
	if ((telling)); then
		printf 'fault %s:%s (T0 stands for the cells as formatted)\n\n%s\n' "$name" "$what" "${tale:-not found}"
	else
		row "$name" fault "${states:-0}" "$steps" $((SECONDS - began)) "$verdict$what"
	fi
	rm -rf "$dir"
	[[ $verdict == "$must:" ]]
}

telling=0
case ${1:-all} in
all) mapfile -t jobs < <(names "$good"; names "$faults") ;;
good) mapfile -t jobs < <(names "$good") ;;
deep) mapfile -t jobs < <(names "$deep") ;;
faults) mapfile -t jobs < <(names "$faults") ;;
list)
	echo 'configurations of the good model:'
	lines "$good"
	echo 'larger ones:'
	lines "$deep"
	echo 'faults:'
	lines "$faults"
	exit
	;;
tell)
	telling=1
	jobs=("${@:2}")
	;;
*) jobs=("$@") ;;
esac
if ((telling)) && ((${#jobs[@]} == 0)); then
	echo "run.sh: tell what? run.sh list names the faults" >&2
	exit 2
fi
for job in "${jobs[@]}"; do
	[[ -n $(line "$faults" "$job") ]] && continue
	if ((telling)) || [[ -z $(line "$good$deep" "$job") ]]; then
		echo "run.sh: there is no $job; run.sh list names what there is" >&2
		exit 2
	fi
done
command -v spin >/dev/null || missing spin spin
command -v gcc >/dev/null || missing 'gcc, which spin calls as its preprocessor,' gcc
command -v "$cc" >/dev/null || missing "$cc, named by CC," gcc

failed=0
((telling)) || row name what states steps s result # steps: of the longest run, or of the counterexample as it is told
for job in "${jobs[@]}"; do
	sizes=$(line "$good$deep" "$job" | sed 's/^[^ ]* *//')
	if [[ -n $sizes ]]; then
		check "$job" "$sizes" || failed=$((failed + 1))
	else
		find_ "$job" || failed=$((failed + 1))
	fi
done
((telling)) || printf '%d of %d as they must be, in %d s\n' $((${#jobs[@]} - failed)) ${#jobs[@]} $SECONDS
((failed == 0))
