/*
 * fjord's commit protocol and the recovery of dead coordinators.
 *
 * Two coordinators (k), two memory nodes (n), two cells (c) with two copies each. Node c is the
 * primary of cell c, the other node its backup, so the primaries are crossed. What is modelled,
 * what is left out and why that is sound, and what was found: README.md in this folder. run.sh
 * checks everything.
 *
 * Where a step is one of the code, the Go function stands beside it. The recoverer has no code
 * yet: its steps carry the rule of the design that they are.
 *
 * Sizes, by -D:
 *   A0 A1    attempts of coordinator 0 and 1: reruns after conflicts, and further transactions
 *   K0 K1    which kinds of transactions they run, like Wx+RxWy, see below
 *   SLOTS    log slots of a session, 2 as built; 1 makes the second attempt use a slot again
 *   CRASHES  coordinators that may die, RCR: recoverers that may stall or die
 *
 * Faults, by -D, each taking out or weakening one rule: F1 F2 F3 F4 F5 F7 F12 F15 F21 F25 F26 F27 F30 F32
 * F33 F34, numbered as the tests are, and FSKIP FFENCE FTOUCH FLOG.
 */

#ifndef A0
#define A0 1
#endif
#ifndef A1
#define A1 1
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef RCR
#define RCR 0
#endif

/* Kinds of transactions on cells x (0) and y (1). W: locked with its first READ, and written.
   R: read. U: read first, locked when commit begins, and written. */
#define Wx   1
#define Wy   2
#define Wxy  4
#define RxWy 8
#define RyWx 16
#define Rx   32
#define Ry   64
#define Rxy  128
#define Ux   256
#define Uy   512
#define RxUy 1024
#define RyUx 2048
#ifndef K0
#define K0 Wxy
#endif
#ifndef K1
#define K1 Wxy
#endif
#define MAY(kind) ((k -> (K1) : (K0)) & (kind))

/* Tokens: one for each attempt, 1..A0 of coordinator 0, then those of coordinator 1. */
#define T          (A0 + A1)
#define TOKEN(k,a) (1 + (k)*A0 + (a))
#define OWNER(t)   ((t) > A0)

/* With -DTELL a counterexample is told in words, see run.sh. */
#ifdef TELL
#define SAY(...) printf(__VA_ARGS__);
#define MUST(what,cond) if :: !(cond) -> printf("VIOLATED: "); printf(what); printf("\n"); assert(false) :: else fi
#else
#define SAY(...)
#define MUST(what,cond) assert(cond)
#endif
#define NAME(c) 'x' + (c)

/* ---- memory nodes ------------------------------------------------------------------------- */

#define I(n,c) ((n)*2 + (c))              /* the copy of cell c at node n */
#define PEND   128                        /* the bit "pending" of a version word */

byte lk[2];                               /* lock word of cell c at its primary; a backup's is never used */
byte ver[4];                              /* version word: counter, and PEND */
byte wr[4];                               /* writer */
byte body[4];                             /* of whose image the sum, key and value are; 0: as formatted */

byte lgt[4*SLOTS], lgs[4*SLOTS];          /* log slots: token (0: no entry, or torn), state */
#define L(k,n,s)  (((k)*2 + (n))*SLOTS + (s))
#define SLOT(t)   (((t) - 1 - OWNER(t)*A0) % SLOTS)
#define OPEN      0
#define COMMITTED 1
#define ABORTED   2

/* ---- what each transaction did: its log entry's content, and what is checked in the end ----- */

byte ws[T+1], rs[T+1];                    /* cells written, cells read only: bits */
byte ov[2*(T+1)], ow[2*(T+1)];            /* version and writer of the image that it read of cell c */
byte outc[T+1];                           /* what the client was told: 0 nothing, COMMITTED, ABORTED */
byte rout[T+1];                           /* what recovery decided */
byte bef[T+1], acked;                     /* who was acknowledged when it began; who is by now: bits */
#define OV(t,c)  ov[2*(t) + (c)]
#define OW(t,c)  ow[2*(t) + (c)]
#define NEW(t,c) (OV(t,c) + 1)            /* Tx.seal: the version it gives */
#define IN(set,c) ((set) & (1 << (c)))

/* The sum holds: body, writer and version (without pending) are of one image. (layout.Verify) */
#define WHOLE(v,w,b,c) ((b) == (w) && ((v) & 127) == ((w) == 0 -> 0 : NEW(w,c)))
#define SUM(i,c)       WHOLE(ver[i], wr[i], body[i], c)

/* ---- queue pairs --------------------------------------------------------------------------- */

#define CAS   1     /* CAS of the lock word, 0 -> t, and the READ of the cell behind it */
#define READ  2     /* READ of the cell */
#define VAL   3     /* READ of 16 bytes: lock, version */
#define LOG   4     /* WRITE of the log entry; the argument is the slot */
#define CELL  5     /* WRITE of the new image, from the version on */
#define UNL   6     /* WRITE of 16 bytes {0, version} */
#define REL   7     /* WRITE of the lock word, 0 */
#define MARK  8     /* WRITE of a log entry's state, aborted; the argument is the slot */
#define UNLB  9     /* F25: the release of a backup */

#define X(k,n) ((k)*2 + (n))              /* the queue pair of coordinator k to node n */
chan q[4] = [6] of { byte, byte, byte };  /* posted and not executed, in order: request, cell or slot, token */
byte vis[4];                              /* how many of them are not quiet; one that is under way counts */
bit fenced[4];                            /* destroyed at the node */

/* Quiet requests change words that nobody reads but k's recoverer, and he only after the fence: log entries, and
   cells at backups. So nobody sees when they execute. They do so together with the next request that is not
   quiet, or when their answers are awaited, or, some of them, at the fence. */
#define QUIET(op,c,n) ((op) == LOG || (op) == MARK || ((op) == CELL && (c) != (n)))

byte rlk[4], rver[4], rwr[4], rbody[4];   /* answers to coordinator k about cell c, at X(k,c) */

bit crashed[2], recovered[2], fin[2];
byte ncr, nrc;                            /* coordinators that died, recoverers that stalled or died */

/* The image that t writes to its cell c at node n. */
#ifdef F12
#define V(t,c,n) NEW(t,c)
#else
#define V(t,c,n) (NEW(t,c) + ((n) == (c) -> PEND : 0))
#endif

inline quiet(op_,c_,t_,n_) {
	if
	:: op_ == LOG  -> SAY("  node %d: T%d writes its log entry\n", n_, t_) lgt[L(k,n_,c_)] = t_; lgs[L(k,n_,c_)] = OPEN
	:: op_ == MARK -> SAY("  node %d: T%d marks its log entry aborted\n", n_, t_) lgs[L(k,n_,c_)] = ABORTED
	:: op_ == CELL ->
		SAY("  node %d: T%d writes %c: image, version %d\n", n_, t_, NAME(c_), NEW(t_,c_))
		ver[I(n_,c_)] = V(t_,c_,n_); wr[I(n_,c_)] = t_; body[I(n_,c_)] = t_
	fi
}

/* Some part of an image lands, and not the whole of it. Lines come in any order, the words of one in ascending
   order: version, writer, sum. A sum and a value that are not of one image count as the old body: what matters is
   that they do not hold. */
#define SAID(what) SAY("    cut off, of T%d's image only landed: ", w_) SAY(what) SAY("\n") skip
inline part(i_,v_,w_) {
	if
	:: ver[i_] = v_; SAID("version")
	:: ver[i_] = v_; wr[i_] = w_; SAID("version, writer")
	:: body[i_] = w_; SAID("body")
	:: ver[i_] = v_; body[i_] = w_; SAID("version, body")
	fi
}

/* The words that a request of token t reads and writes at cell c, each in one piece. */
#define GETLOCK SAY("  node %d: T%d reads %c: lock T%d\n", n, t, NAME(c), lk[c]) rlk[X(k,c)] = lk[c]
#define GETVER  SAY("  node %d: T%d reads %c: version %d\n", n, t, NAME(c), ver[I(n,c)]) rver[X(k,c)] = ver[I(n,c)]
#define GETHEAD GETVER; rwr[X(k,c)] = wr[I(n,c)]
#define GETBODY SAY("  node %d: T%d reads %c: body of T%d\n", n, t, NAME(c), body[I(n,c)]) rbody[X(k,c)] = body[I(n,c)]
#define TAKE    SAY("  node %d: T%d locks %c\n", n, t, NAME(c)) lk[c] = t
#define FREE    SAY("  node %d: T%d frees %c\n", n, t, NAME(c)) lk[c] = 0
#define PUTHEAD SAY("  node %d: T%d writes %c: version %d, pending\n", n, t, NAME(c), NEW(t,c)) ver[I(n,c)] = V(t,c,n); wr[I(n,c)] = t
#define PUTBODY SAY("  node %d: T%d writes %c: body\n", n, t, NAME(c)) body[I(n,c)] = t
#define CLEAN   SAY("  node %d: T%d writes %c: version %d, not pending\n", n, t, NAME(c), NEW(t,c)) ver[I(n,c)] = NEW(t,c)

/* A WRITE that the fence has cut off does not go on. F30: it does, "stopped, not dead". */
#define ALIVE !fenced[X(k,n)]
#ifdef F30
#define GOESON true
#else
#define GOESON ALIVE
#endif

/* Whoever meets the lock of a recovered coordinator frees it by a CAS of what he has seen, and then locks: here that
   is one step, since who comes between the two is another who meets it. */
#ifdef F7
#define OPENTO(c) (lk[c] == 0)
#else
#define OPENTO(c) (lk[c] == 0 || recovered[OWNER(lk[c])])
#endif

inline over() { /* the request has executed */
	if :: vis[X(k,n)] > 0 -> vis[X(k,n)]-- :: else fi;
	op = 0; c = 0; t = 0
}

/*
 * Nic is the responder of queue pair X(k,n). It executes requests in order, with a step for each word or line that
 * others can see apart from the rest: words of a line in ascending order (lock, version, writer), lines in any.
 * What it executes after the fence is cut off there.
 */
#define BODYREAD 100 /* added to op: which parts are done */
#define HEADREAD 101
#define LOCKREAD 102
#define BODYPUT  100

proctype Nic(byte k; byte n) {
	byte op, c, t;
end:	do
	:: atomic {
#ifdef F21
		(vis[X(k,n)] > 0 || (crashed[k] && nempty(q[X(k,n)]))) ->
#else
		vis[X(k,n)] > 0 ->
#endif
		do
		:: nempty(q[X(k,n)]) -> q[X(k,n)]?op,c,t;
			if :: QUIET(op,c,n) -> quiet(op,c,t,n); op = 0 :: else -> break fi
#ifdef F21
		:: empty(q[X(k,n)]) -> c = 0; t = 0; goto end
#endif
		od;
		if
		:: op == CAS && !OPENTO(c) -> GETLOCK; over(); goto end
		:: op == CAS && OPENTO(c)  -> TAKE
		:: op == READ -> GETLOCK
		:: op == READ -> GETBODY; op = READ + BODYREAD
		:: op == VAL  -> GETLOCK
		:: op == CELL -> PUTHEAD
		:: op == CELL -> PUTBODY; op = CELL + BODYPUT
		:: op == UNL  -> FREE
		:: op == REL  -> FREE; over(); goto end
		:: op == UNLB -> CLEAN; over(); goto end
		fi
	   };
	   atomic {
		if
		:: op == CAS && ALIVE -> GETHEAD; GETBODY /* behind the CAS nobody writes, but an unlock may be half done */
		:: op == READ && ALIVE -> GETHEAD; op = READ + HEADREAD
		:: op == READ && ALIVE -> GETBODY; op = READ + LOCKREAD
		:: op == READ + BODYREAD && ALIVE -> GETLOCK; op = READ + LOCKREAD
		:: op == VAL && ALIVE -> GETVER
		:: op == CELL && GOESON -> PUTBODY
		:: op == CELL + BODYPUT && GOESON -> PUTHEAD
		:: op == UNL && GOESON -> CLEAN
		:: else
		fi;
		if
		:: op == READ + HEADREAD || op == READ + LOCKREAD
		:: else -> over(); goto end
		fi
	   };
	   atomic {
		if
		:: op == READ + HEADREAD && ALIVE -> GETBODY
		:: op == READ + LOCKREAD && ALIVE -> GETHEAD
		:: else
		fi;
		over()
	   }
	od
}

/* ---- coordinators --------------------------------------------------------------------------- */

#define EACHOF(v) v = 0; do :: v < 2 ->
#define NEXTOF(v) v++ :: else -> break od; v = 0
#define EACH EACHOF(c)
#define NEXT NEXTOF(c)

inline post(n_,op_,c_) { /* Session.Read, Write, CAS, Unlock, Unhold, and Ring */
	q[X(k,n_)]!op_,c_,t;
	if :: QUIET(op_,c_,n_) :: else -> vis[X(k,n_)]++ fi;
	m = m | (1 << (n_))
}

/* Session.Wait, for the queue pairs on which something was posted. A coordinator may die here, before any of the
   requests has executed, or after all, or anywhere between: hence between any two requests, and, since the fence
   cuts what is under way, within one. */
inline await() {
	if
	:: d_step {
		(!(m & 1) || vis[X(k,0)] == 0) && (!(m & 2) || vis[X(k,1)] == 0) ->
		EACH	do
			:: vis[X(k,c)] == 0 && len(q[X(k,c)]) > 0 -> q[X(k,c)]?op,i,u; quiet(op,i,u,c)
			:: else -> break
			od
		NEXT;
		op = 0; i = 0; u = 0; m = 0
	   }
	:: atomic { ncr < CRASHES -> ncr++; SAY("coordinator %d dies\n", k) crashed[k] = 1; goto crash }
	fi
}

inline clear() {
	EACH	rlk[X(k,c)] = 0; rver[X(k,c)] = 0; rwr[X(k,c)] = 0; rbody[X(k,c)] = 0
	NEXT
}

/* Whoever accepts an image, however his transaction ends, accepts a committed one. */
#define ACCEPT(w) MUST("an image that is not committed is accepted", (w) == 0 || outc[w] == COMMITTED || rout[w] == COMMITTED)

inline judge() { /* Tx.freeImage, Tx.lockedImage. Torn or pending is a conflict here: see README.md */
	if
	:: (rver[X(k,c)] & PEND) -> bad = 1
	:: !(rver[X(k,c)] & PEND) && !WHOLE(rver[X(k,c)], rwr[X(k,c)], rbody[X(k,c)], c) ->
		MUST("an image read under its lock is torn", !IN(held, c)); /* cell.corrupt */
		bad = 1
	:: else -> ACCEPT(rwr[X(k,c)])
	fi
}

inline release() { /* Tx.unhold: exactly the locks whose CAS has found 0, each by its word alone */
	EACH	if
#ifdef F1
		:: IN(ws[t], c) -> post(c, REL, c)
#else
		:: IN(held, c) -> post(c, REL, c)
#endif
		:: else
		fi
	NEXT;
	held = 0
}

#define POSTLOG post(0, LOG, SLOT(t)); post(1, LOG, SLOT(t)) /* Tx.postLogs */
#define ACK     SAY("T%d is acknowledged as committed\n", t) outc[t] = COMMITTED; acked = acked | (1 << t)

proctype Coord(byte k) {
	short kind;
	byte a, t, held, late, m;
	byte c, op, i, u;
	bit bad, logged;

begin:	/* session.once, Tx.start, and the function's first Fetch */
	atomic {
		if :: a < (k -> A1 : A0) :: else -> m = 3; goto finish fi;
		t = TOKEN(k,a); a++;
		if
		:: bad /* DB.retry: the same function again */
		:: !bad && MAY(Wx)   -> kind = Wx
		:: !bad && MAY(Wy)   -> kind = Wy
		:: !bad && MAY(Wxy)  -> kind = Wxy
		:: !bad && MAY(RxWy) -> kind = RxWy
		:: !bad && MAY(RyWx) -> kind = RyWx
		:: !bad && MAY(Rx)   -> kind = Rx
		:: !bad && MAY(Ry)   -> kind = Ry
		:: !bad && MAY(Rxy)  -> kind = Rxy
		:: !bad && MAY(Ux)   -> kind = Ux
		:: !bad && MAY(Uy)   -> kind = Uy
		:: !bad && MAY(RxUy) -> kind = RxUy
		:: !bad && MAY(RyUx) -> kind = RyUx
		fi;
		bad = 0; held = 0; logged = 0; m = 0;
		ws[t] = (kind == Wx || kind == RyWx || kind == Ux || kind == RyUx -> 1 :
		        (kind == Wy || kind == RxWy || kind == Uy || kind == RxUy -> 2 : (kind == Wxy -> 3 : 0)));
		rs[t] = (kind == Rx || kind == RxWy || kind == RxUy -> 1 :
		        (kind == Ry || kind == RyWx || kind == RyUx -> 2 : (kind == Rxy -> 3 : 0)));
		late = (kind >= Ux -> ws[t] : 0);
		bef[t] = acked;
		SAY("coordinator %d begins T%d: writes %d, reads %d (1: x, 2: y, 3: both), locks late %d\n", k, t, ws[t], rs[t], late)
		EACH	if /* Tx.postLock, Tx.postRead */
			:: IN(ws[t], c) && late == 0 -> post(c, CAS, c)
			:: IN(rs[t] | late, c)       -> post(c, READ, c)
			:: else
			fi
		NEXT;
		if :: a > SLOTS && ws[t] != 0 && late == 0 -> m = 3 :: else fi /* Session.NextLog: the probe rides along */
	};
	await();

	atomic { /* Tx.resolve: Tx.absorbAt of every answer */
		EACH	if
			:: IN(ws[t], c) && late == 0 ->
				if :: rlk[X(k,c)] == 0 -> held = held | (1 << c) :: else -> bad = 1 fi     /* cell.took, Tx.busy */
			:: else
			fi;
			if
			:: IN(held | rs[t] | late, c) -> judge(); OV(t,c) = rver[X(k,c)] & 127; OW(t,c) = rwr[X(k,c)]
			:: else
			fi
		NEXT;
		if
		:: bad -> clear(); goto undo
		:: else
		fi;
		if /* Tx.confirm: one cell, with a free lock word in its image, needs no validation */
#ifdef FSKIP
		:: ws[t] == 0 && rs[t] != 3 -> clear(); goto answer
		:: ws[t] == 0 && rs[t] == 3 -> clear(); goto check
#else
		:: ws[t] == 0 && rs[t] != 3 && rlk[X(k,0)] == 0 && rlk[X(k,1)] == 0 -> clear(); goto answer
		:: ws[t] == 0 && (rs[t] == 3 || rlk[X(k,0)] != 0 || rlk[X(k,1)] != 0) -> clear(); goto check
#endif
		:: ws[t] != 0 && late == 0 -> clear(); goto log
		:: ws[t] != 0 && late != 0 -> clear()
		fi;

		/* Tx.prepare: what was put without a lock is locked when commit begins */
		EACH	if
			:: IN(late, c) ->
#ifdef F4
				POSTLOG; logged = 1;
#endif
				post(c, CAS, c)
#ifdef F3
			:: IN(rs[t], c) -> post(c, VAL, c)
#endif
			:: else
			fi
		NEXT;
		if :: a > SLOTS -> m = 3 :: else fi /* Session.NextLog */
	};
	await();

	atomic {
		EACH	if
			:: IN(late, c) ->
				if
				:: rlk[X(k,c)] == 0 ->
					held = held | (1 << c);
					judge();
					if :: rver[X(k,c)] != OV(t,c) -> bad = 1 :: else fi /* Tx.lockedImage: the version must be the one read */
				:: else -> bad = 1
				fi
#ifdef F3
			:: IN(rs[t], c) -> if :: rlk[X(k,c)] != 0 || rver[X(k,c)] != OV(t,c) -> bad = 1 :: else fi
#endif
			:: else
			fi
		NEXT;
		clear();
		if :: bad -> goto undo :: else -> goto log fi
	};

	/* Tx.commit. The labels below lie within their steps: what leads there goes on in the same step. */
	atomic {
		true;
log:
#if defined(F4)
		if :: late == 0 -> POSTLOG; logged = 1 :: else fi;
#elif !defined(FLOG)
		POSTLOG; logged = 1;
#endif
#ifdef F3
		if :: rs[t] == 0 || late != 0 -> goto cells :: else fi;
#else
		if :: rs[t] == 0 -> goto cells :: else fi;
#endif
check:	/* Tx.validate: rides with the log */
		EACH	if :: IN(rs[t], c) -> post(c, VAL, c) :: else fi
		NEXT
	};
	await();

	atomic {
		EACH	if
#ifdef F2
			:: IN(rs[t], c) && rver[X(k,c)] != OV(t,c) -> bad = 1
#else
			:: IN(rs[t], c) && (rver[X(k,c)] != OV(t,c) || rlk[X(k,c)] != 0) -> bad = 1
#endif
			:: else
			fi
		NEXT;
		clear();
		if
		:: bad -> goto undo
		:: !bad && ws[t] == 0 -> goto answer
		:: !bad && ws[t] != 0
		fi;
cells:	/* Tx.postCells */
		SAY("T%d is sure to commit\n", t)
		EACH	if :: IN(ws[t], c) -> post(0, CELL, c); post(1, CELL, c) :: else fi
		NEXT;
#ifdef FLOG
		POSTLOG;
#endif
#ifdef F15
		ACK
#endif
	};
	await();

	atomic {
		true;
answer:	/* the commit point; Tx.unlock */
		ACK;
		EACH	if
			:: IN(ws[t], c) -> post(c, UNL, c);
#ifdef F25
				post(1-c, UNLB, c)
#endif
			:: else
			fi
		NEXT;
		m = 0; goto begin /* Session.RingQuiet: nobody waits */
	};

	atomic {
		true;
undo:	/* Tx.abort */
		SAY("T%d has a conflict\n", t)
#ifdef F5
		goto free;
#endif
		if :: !logged -> goto free :: else fi;
#ifdef F32
		release()
	};
	await();
	atomic {
#endif
		post(0, MARK, SLOT(t)); post(1, MARK, SLOT(t)) /* Tx.markAborted */
	};
	await();
	atomic {
		true;
free:
		SAY("T%d is aborted\n", t)
		outc[t] = ABORTED;
		release();
		if :: !logged -> ws[t] = 0; OV(t,0) = 0; OV(t,1) = 0; OW(t,0) = 0; OW(t,1) = 0 :: else fi;
		rs[t] = 0; bef[t] = 0;
		m = 0; goto begin
	};

finish:
	await();
	atomic { fin[k] = 1; a = 0; t = 0; kind = 0; held = 0; late = 0; bad = 0; logged = 0; goto stop };
crash:
	atomic { a = 0; t = 0; kind = 0; held = 0; late = 0; bad = 0; logged = 0; m = 0; c = 0 };
stop:	skip
}

/* ---- recovery ------------------------------------------------------------------------------- */

/* A recoverer that has stalled leaves a WRITE under way. The node may execute it until he is fenced, which is the
   first thing that his successor does. (F27: he does not.) */
#define IMAGE   1   /* the old image of cell copy gi */
#define LOCK    2   /* the lock word of cell gi */
#define BOTH    3   /* lock and version word of cell gi */
#define VERSION 4   /* the version word of cell gi */
byte g, gi, gv, gw; /* which, where, version, writer; 0: none is under way */

#define RESTORE(i,v,w)  ver[i] = v; wr[i] = w; body[i] = w
#define STALL(what,i,v,w) nrc < RCR -> nrc++; SAY("the recoverer of %d stalls, a WRITE is under way\n", k) g = what; gi = i; gv = v; gw = w; goto again
inline lost() { if :: true :: nrc < RCR -> nrc++; SAY("the recoverer of %d dies\n", k) goto again fi } /* between two steps */
#ifdef F32
bit reissued;
#endif

proctype Late() {
end:	do
	:: atomic {
		g != 0 ->
		SAY("the stalled recoverer's WRITE lands (kind %d, copy or cell %d, version %d, writer T%d)\n", g, gi, gv, gw)
		if
		:: g == IMAGE   -> RESTORE(gi, gv, gw)
		:: g == LOCK    -> lk[gi] = 0
		:: g == BOTH    -> lk[gi] = 0; ver[I(gi,gi)] = gv
		:: g == VERSION -> ver[I(gi,gi)] = gv
		fi;
		g = 0; gi = 0; gv = 0; gw = 0
	   }
	od
}

inline takeover() { /* the stalled recoverer is fenced: what is under way lands in part, or not at all */
#ifdef F27
	skip
#else
	if
	:: g == IMAGE -> part(gi, gv, gw)
	:: g == BOTH  -> lk[gi] = 0
	:: true
	fi;
	g = 0; gi = 0; gv = 0; gw = 0
#endif
}

/* Node n_ destroys k's queue pair, and answers when nothing on it is executing any more. Of what was posted, some
   requests have executed by then, and of the one after these, a part. Those that are not quiet are executed by
   Nic, if they are. */
inline fence(n_) {
#ifdef F21
	skip
#else
	fenced[X(k,n_)] = 1;
	SAY("  node %d fences coordinator %d\n", n_, k)
	do
	:: nempty(q[X(k,n_)]) -> q[X(k,n_)]?op,c,t;
		if
		:: QUIET(op,c,n_) -> quiet(op,c,t,n_)
		:: op == LOG -> SAY("    cut off in the log entry of T%d\n", t) lgt[L(k,n_,c)] = 0; lgs[L(k,n_,c)] = 0; break
		:: op == CELL -> part(I(n_,c), V(t,c,n_), t); break
		:: op == UNL -> SAY("    cut off in T%d's unlock of %c: lock 0\n", t, NAME(c)) lk[c] = 0; break
		:: else -> break
		fi
	:: true -> break
	od;
	do :: nempty(q[X(k,n_)]) -> q[X(k,n_)]?_,_,_ :: empty(q[X(k,n_)]) -> break od;
	vis[X(k,n_)] = 0; rlk[X(k,n_)] = 0; rver[X(k,n_)] = 0; rwr[X(k,n_)] = 0; rbody[X(k,n_)] = 0;
	op = 0; c = 0; t = 0
#endif
}

#define HAS(n)   (lgt[L(k,n,SLOT(t))] == t)                    /* node n has t's entry */
#define SAYS(n,s) (HAS(n) && lgs[L(k,n,SLOT(t))] == (s))
#ifdef F26
#define LANDED(i) (wr[i] == t)
#else
#define LANDED(i) (wr[i] == t && SUM(i,c))
#endif
#define APPLIED(i) ((ver[i] & 127) > NEW(t,c) || ((ver[i] & 127) == NEW(t,c) && LANDED(i)))

#ifdef FTOUCH
#define DONEWITH record()
#else
#define DONEWITH skip
#endif
inline record() {
	n = 0; do
	:: n < 2 -> if :: HAS(n) -> lgs[L(k,n,SLOT(t))] = rout[t]; lost() :: else fi; n++
	:: else -> break
	od;
	n = 0
}

/* What the recoverer writes to the primary of cell c. */
#define UNLOCK    SAY("  node %d: recovery frees %c\n", c, NAME(c)) lk[c] = 0
#define SETVER(v) SAY("  node %d: recovery writes %c: version %d\n", c, NAME(c), v) ver[I(c,c)] = v
#define OLDHEAD   SETVER(OV(t,c)); wr[I(c,c)] = OW(t,c)
#define OLDBODY   SAY("  node %d: recovery writes %c: body of T%d\n", c, NAME(c), OW(t,c)) body[I(c,c)] = OW(t,c)

/*
 * Recover brings order into what coordinator k has left. It posts one WRITE at a time and awaits it. It may die or
 * stall anywhere; then another takes over, here by beginning again.
 */
proctype Recover(byte k) {
	byte c, n, t, op, i, last;
	bit com;

	if :: crashed[k] :: fin[k] -> goto stop fi;

	/* It claims the recovery, fences its predecessor and then the suspect, node by node, and reads the logs when all
	   have answered. */
again:	atomic {
		last = T + 1; c = 0; n = 0; t = 0; op = 0; i = 0; com = 0;
		SAY("the recovery of %d begins\n", k)
		takeover();
		fence(0);
		lost()
	};
	atomic {
#ifdef FFENCE
		true /* it does not wait for the second node, which is slow */
#else
		fence(1);
		lost()
#endif
	};

entry:	/* Entries from the highest version down: the youngest first. */
	atomic {
		t = last - 1;
		do :: t > 0 && !(OWNER(t) == k && (HAS(0) || HAS(1))) -> t-- :: else -> break od;
		if :: t == 0 -> goto swept :: else fi;
		last = t;

		/* Its outcome: aborted if it is marked so anywhere; else committed if any of its cells is no longer locked by
		   its token; else committed if it is applied at every replica of every cell. All of that stands still. */
		if
		:: SAYS(0,ABORTED) || SAYS(1,ABORTED) -> com = 0
		:: else ->
			com = (SAYS(0,COMMITTED) || SAYS(1,COMMITTED) || (IN(ws[t],0) && lk[0] != t) || (IN(ws[t],1) && lk[1] != t));
			if
			:: com
			:: !com ->
				com = 1;
				EACH	n = 0; do
					:: n < 2 -> if :: IN(ws[t], c) && !APPLIED(I(n,c)) -> com = 0 :: else fi; n++
					:: else -> break
					od; n = 0
				NEXT
			fi
		fi;
		MUST("two recoverers decide differently", rout[t] == 0 || rout[t] == (com -> COMMITTED : ABORTED));
		rout[t] = (com -> COMMITTED : ABORTED);
#ifdef F32
		if
		:: com && outc[t] != COMMITTED && ((IN(ws[t],0) && wr[I(0,0)] != t && ver[I(0,0)] == NEW(t,0)) ||
		   (IN(ws[t],1) && wr[I(1,1)] != t && ver[I(1,1)] == NEW(t,1))) -> reissued = 1
		:: else
		fi;
#endif
		SAY("recovery of %d: T%d is committed (1), aborted (0): %d\n", k, t, com)

		/* The outcome is written into the entry on all nodes, and that awaited, before any cell is touched. */
#ifndef FTOUCH
		record();
#endif
		if :: com -> goto commit :: else fi;

		/* Aborted: old images go back where the primary's lock is its token, backups before primaries. */
		EACH	i = I(1-c, c);
			if
			:: IN(ws[t], c) && HAS(1-c) && lk[c] == t ->
				if
				:: SAY("  node %d: recovery writes %c: old image, version %d\n", 1-c, NAME(c), OV(t,c)) RESTORE(i, OV(t,c), OW(t,c))
				:: STALL(IMAGE, i, OV(t,c), OW(t,c))
				fi
			:: else
			fi;
			i = 0
		NEXT
	};
	do
	:: atomic { c < 2 && IN(ws[t], c) && HAS(c) && lk[c] == t ->
		if
		:: OLDHEAD; n = 1
		:: OLDBODY; n = 2
		:: STALL(IMAGE, I(c,c), OV(t,c), OW(t,c))
		fi };
	   atomic {
		if
		:: n == 1 -> OLDBODY
		:: n == 2 -> OLDHEAD
		fi;
		n = 0; c++; lost() }
	:: atomic { c < 2 && !(IN(ws[t], c) && HAS(c) && lk[c] == t) -> c++ }
	:: atomic { c == 2 -> c = 0; break }
	od;
	do /* then the locks, 8 bytes each (F34: 16, with the old version) */
	:: atomic { c < 2 && IN(ws[t], c) && lk[c] == t ->
		if
#ifdef F34
		:: UNLOCK; goto oldversion
#else
		:: UNLOCK; c++; lost()
#endif
		:: STALL(LOCK, c, 0, 0)
		fi };
#ifdef F34
	   if :: false -> oldversion: atomic { SETVER(OV(t,c)); c++ } fi
#endif
	:: atomic { c < 2 && !(IN(ws[t], c) && lk[c] == t) -> c++ }
	:: atomic { c == 2 -> c = 0; DONEWITH; goto entry }
	od;

commit:	/* Committed: pending is cleared and the lock freed where the lock is its token. Where it is not, and the version
	   word is the entry's, still pending, and the writer its token, an unlock was cut in half: the version word alone. */
	do
	:: atomic { c < 2 && IN(ws[t], c) && lk[c] == t ->
		if
		:: UNLOCK; lost()
		:: STALL(BOTH, c, NEW(t,c), 0)
		fi };
	   atomic { SETVER(NEW(t,c)); c++; lost() }
#ifndef F33
	:: atomic { c < 2 && IN(ws[t], c) && lk[c] != t && ver[I(c,c)] == (NEW(t,c) | PEND) && wr[I(c,c)] == t ->
		if
		:: SETVER(NEW(t,c)); c++; lost()
		:: STALL(VERSION, c, NEW(t,c), 0)
		fi }
	:: atomic { c < 2 && !(IN(ws[t], c) && (lk[c] == t || (ver[I(c,c)] == (NEW(t,c) | PEND) && wr[I(c,c)] == t))) -> c++ }
#else
	:: atomic { c < 2 && !(IN(ws[t], c) && lk[c] == t) -> c++ }
#endif
	:: atomic { c == 2 -> c = 0; DONEWITH; goto entry }
	od;

swept:	/* The id is listed as recovered. */
	atomic {
#ifdef FFENCE
		fence(1);
#endif
		SAY("coordinator %d is recovered\n", k)
		recovered[k] = 1; t = 0; last = 0; com = 0 };
stop:	skip
}

/* ---- what must hold in the end ----------------------------------------------------------------- */

#define ENDED(k)  (fin[k] || recovered[k])
#define DONE(k,n) (vis[X(k,n)] == 0 && empty(q[X(k,n)]))

/* Which wrong outcomes count. F32: only where another had written the version that t had when recovery decided, after
   which the fault is named. F4: none, so that what is found is the undo that it is named after. */
#ifdef F32
#define COUNTS reissued
#endif
#ifdef F4
#define COUNTS 0
#endif
#ifndef COUNTS
#define COUNTS 1
#endif

#ifdef SHORTEST
#define SCRATCH
#else
#define SCRATCH hidden
#endif
SCRATCH byte pos[2*(T+1)], edge[T+1];      /* version that t wrote to c, if that is in c's history; who must come after t */

SCRATCH byte hc, hw, hv, ht, hu, hm, app;

active proctype Check() {
	d_step {
		(ENDED(0) && ENDED(1) && DONE(0,0) && DONE(0,1) && DONE(1,0) && DONE(1,1) && g == 0) ->
		app = 0;
		ht = 0; do :: ht <= T -> pos[2*ht] = 0; pos[2*ht+1] = 0; edge[ht] = 0; ht++ :: else -> break od;

		/* No lock is left but of recovered coordinators, which whoever meets it frees. */
		EACHOF(hc)
#ifndef F7
			if :: lk[hc] != 0 && recovered[OWNER(lk[hc])] -> lk[hc] = 0 :: else fi;
#endif
			MUST("a lock is left that nobody frees", lk[hc] == 0)
		NEXTOF(hc);

		/* Copies are whole, alike, and not pending. */
		EACHOF(hc)	MUST("a copy is torn", SUM(I(0,hc), hc) && SUM(I(1,hc), hc));
			MUST("a cell is left pending", !(ver[I(0,hc)] & PEND) && !(ver[I(1,hc)] & PEND));
			MUST("the copies differ", ver[I(0,hc)] == ver[I(1,hc)] && wr[I(0,hc)] == wr[I(1,hc)])
		NEXTOF(hc);

		/* Each cell has one history: every image was written over the one that its writer has read. */
		EACHOF(hc)	hw = wr[I(hc,hc)]; hv = ver[I(hc,hc)];
			do
			:: hw != 0 -> MUST("the history of a cell has a gap", hv > 0 && IN(ws[hw], hc) && pos[2*hw+hc] == 0); pos[2*hw+hc] = hv; hv--; hw = OW(hw,hc)
			:: else -> break
			od;
			MUST("the history of a cell has a gap", hv == 0)
		NEXTOF(hc);

		/* All or nothing, and as the client was told and as recovery has recorded. */
		ht = 1; do
		:: ht <= T ->
			hm = (pos[2*ht] -> 1 : 0) | (pos[2*ht+1] -> 2 : 0);
			MUST("a transaction is there in half", hm == 0 || hm == ws[ht]);
			MUST("an acknowledged commit is lost", outc[ht] != COMMITTED || hm == ws[ht]);
			MUST("an aborted write is there", outc[ht] != ABORTED || hm == 0);
			MUST("recorded as committed, and is not", rout[ht] != COMMITTED || hm == ws[ht] || !COUNTS);
			MUST("recorded as aborted, and is not", rout[ht] != ABORTED || hm == 0);
			if :: hm != 0 || outc[ht] == COMMITTED -> app = app | (1 << ht) :: else fi;
			ht++
		:: else -> break
		od;

		/* Strict serializability: in the graph of who must come after whom is no circle. */
		ht = 1; do
		:: ht <= T -> hu = 1; do
			:: hu <= T ->
				if
				:: ht != hu && (app & (1 << ht)) && (app & (1 << hu)) ->
					if :: bef[hu] & (1 << ht) -> edge[ht] = edge[ht] | (1 << hu) :: else fi; /* real time */
					EACHOF(hc)	if
						:: pos[2*ht+hc] && IN(ws[hu] | rs[hu], hc) ->
							hw = OW(hu,hc);
							MUST("what was read is not in the history", hw == 0 || pos[2*hw+hc]);
							hv = (hw == 0 -> 0 : pos[2*hw+hc]);
							if :: pos[2*ht+hc] <= hv -> edge[ht] = edge[ht] | (1 << hu) :: else -> edge[hu] = edge[hu] | (1 << ht) fi
						:: else
						fi
					NEXTOF(hc)
				:: else
				fi;
				hu++
			:: else -> break
			od; ht++
		:: else -> break
		od;
		hm = 1; do
		:: hm <= T -> ht = 1; do
			:: ht <= T -> if :: edge[ht] & (1 << hm) -> edge[ht] = edge[ht] | edge[hm] :: else fi; ht++
			:: else -> break
			od; hm++
		:: else -> break
		od;
		ht = 1; do :: ht <= T -> MUST("not strictly serializable", !(edge[ht] & (1 << ht))); ht++ :: else -> break od
	}
}

init {
	atomic {
		run Nic(0,0); run Nic(0,1); run Nic(1,0); run Nic(1,1);
		run Coord(0); run Coord(1)
#if CRASHES > 0
		; run Recover(0); run Recover(1)
#endif
#if RCR > 0
		; run Late()
#endif
	}
}
