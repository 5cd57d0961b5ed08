//! Real programs do the same with the library as without it: what they write, and how they end.

mod support;

use support::{assert_same, is_installed};

/// Runs the script by way of `assert_same` if the optional program is there.
fn assert_same_if_installed(program: &str, name: &str, script: &str) {
    if is_installed(program) {
        assert_same(name, script);
    } else {
        eprintln!("not run: {program} is not installed");
    }
}

#[test]
fn shell_scripts() {
    assert_same(
        "shell",
        r#"
        fib() { if [ "$1" -lt 2 ]; then echo "$1"; else echo $(($(fib $(($1 - 1))) + $(fib $(($1 - 2))))); fi; }
        fib 9
        number=0
        while [ $number -lt 3000 ]; do number=$((number + 1)); text="$text-$number"; done
        echo "${#text}" "${text##*-29}"
        printf '%s\n' c b a | sort | tr a-z A-Z | while read -r line; do echo "<$line>"; done
        cat <<END > here
$(seq 1 2000)
END
        wc -l here; cksum here; (exit 3) || echo "status $?"
        "#,
    );
}

#[test]
fn listing_of_a_large_tree() {
    assert_same("ls", "ls -R /usr/include /usr/share | cksum; ls -l /usr/bin | wc -l");
}

#[test]
fn grep_sed_and_awk() {
    assert_same(
        "text",
        r#"
        grep -rnE '(define|undef) +_?[A-Z]{3,}' /usr/include | sort | cksum
        cat /usr/include/*.h > all; grep -c '^#' all; grep -o '[a-z_]*(' all | sort | uniq -c | sort -rn | head -20
        sed -E 's/([a-z]+)_([a-z]+)/\2_\1/g; /^$/d; y/abc/xyz/' all | cksum
        head -2000 all | sed -n '1!G;h;$p' | cksum
        awk '{ for (i = 1; i <= NF; i++) count[$i]++ } END { for (w in count) print count[w], w }' all | sort | cksum
        awk 'BEGIN { s = ""; for (i = 0; i < 20000; i++) s = s i; print length(s) }'
        "#,
    );
}

#[test]
fn python_with_json_and_regular_expressions() {
    assert_same(
        "python",
        r#"cat > work.py <<'END'
import collections, hashlib, json, re
records = [{"id": i, "name": "n%d" % (i * 7919 % 1000), "tags": ["t%d" % (i % k) for k in range(1, 9)],
            "text": "lorem ipsum " * (i % 40)} for i in range(20000)]
text = json.dumps(records)
assert json.loads(text) == records
print(len(text), hashlib.sha256(text.encode()).hexdigest())
words = collections.Counter(re.findall(r'"(n\d+)"', text))
print(words.most_common(5), len(re.sub(r'(\w+) (\w+)', r'\2 \1', text)))
print(sum(int(number) for number in re.findall(r'"id": (\d+)', text)), 2 ** 20000 % 10 ** 30)
END
        python3 work.py
        PYTHONMALLOC=malloc python3 work.py
        "#,
    );
}

#[test]
fn python_with_threads() {
    assert_same(
        "python-threads",
        r#"cat > work.py <<'END'
import concurrent.futures, hashlib, queue, threading, zlib
def job(seed):
    data = b"".join(hashlib.sha256(b"%d %d" % (seed, i)).digest() for i in range(2000))
    return zlib.crc32(zlib.decompress(zlib.compress(data * 4)))
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(job, range(64))))
q, total = queue.Queue(), []
def consume():
    while (item := q.get()) is not None:
        total.append(len(item))
threads = [threading.Thread(target=consume) for _ in range(4)]
for t in threads: t.start()
for i in range(20000): q.put("x" * (i % 3000))
for t in threads: q.put(None)
for t in threads: t.join()
for _ in range(300):
    t = threading.Thread(target=lambda: bytearray(100000)); t.start(); t.join()
print(sum(total))
END
        PYTHONMALLOC=malloc python3 work.py
        "#,
    );
}

#[test]
fn python_with_processes_forked_and_spawned() {
    assert_same(
        "python-processes",
        r#"cat > work.py <<'END'
import multiprocessing, threading, time
def square(number):
    return sum(len("x" * (number % 100)) for _ in range(1000)) + number * number
if __name__ == "__main__":
    stop = threading.Event()
    def churn():
        while not stop.is_set():
            [bytearray(size) for size in (10, 1000, 100000, 3000000)]
    threads = [threading.Thread(target=churn) for _ in range(3)]
    for t in threads: t.start()
    for how in ("fork", "spawn"):
        context = multiprocessing.get_context(how)
        with context.Pool(3) as pool:
            print(how, sum(pool.map(square, range(500))))
        shared = context.Queue()
        p = context.Process(target=shared.put, args=(list(range(1000)),)); p.start()
        print(sum(shared.get())); p.join(); print(p.exitcode)
    stop.set()
    for t in threads: t.join()
END
        PYTHONMALLOC=malloc python3 -W ignore work.py
        "#,
    );
}

#[test]
fn perl() {
    assert_same(
        "perl",
        r#"
        perl -e 'my %h; $h{$_ % 1013} .= "$_," for 1..200000; my $s = join ";", map { "$_=" . length $h{$_} } sort keys %h;
            print length $s, " ", unpack("%32C*", $s), "\n"; my @a = map { [$_, $_ * 3 % 977] } 1..50000;
            print join(",", map { $_->[0] } (sort { $a->[1] <=> $b->[1] or $a->[0] <=> $b->[0] } @a)[0..9]), "\n";'
        perl -ne '$c{lc $1}++ while /(\w+)/g; END { print "$_ $c{$_}\n" for (sort { $c{$b} <=> $c{$a} or $a cmp $b } keys %c)[0..20] }' /usr/include/*.h
        "#,
    );
}

#[test]
fn git() {
    assert_same(
        "git",
        r#"
        export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z' HOME="$PWD"
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_NOSYSTEM=1
        git init -q -b main origin && cd origin
        number=0
        while [ $number -lt 40 ]; do
            number=$((number + 1)); mkdir -p dir$((number % 5))
            seq $number $((number * 50)) > dir$((number % 5))/file$((number % 13))
            git add . && git commit -q -m "change $number"
        done
        git checkout -q -b side HEAD~10 && echo side > side && git add side && git commit -q -m side
        git checkout -q main && git merge -q --no-edit side && git log --stat | cksum && git rev-parse HEAD
        cd .. && git clone -q origin copy && cd copy && git log --oneline | wc -l && git blame dir1/file1 | cksum
        git gc -q --aggressive --prune=now && git fsck --strict; git diff HEAD~20 | cksum
        git log -p --all | cksum; git grep -c 7 | cksum; git archive HEAD | cksum
        "#,
    );
}

#[test]
fn sqlite() {
    assert_same(
        "sqlite",
        r#"
        cat > work.sql <<'END'
create table item (id integer primary key, name text, weight real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 50000)
insert into item select i, 'name ' || (i * 7919 % 10007), i * 0.5 from n;
create index item_name on item (name);
select count(*), sum(weight) from item where name like 'name 1%';
select name, count(*) c from item group by name order by c desc, name limit 5;
update item set name = name || ' changed' where id % 3 = 0;
delete from item where id % 7 = 0;
vacuum;
select count(distinct name), max(length(name)), group_concat(id) from (select * from item order by id limit 1000);
pragma integrity_check;
END
        sqlite3 base < work.sql
        "#,
    );
}

#[test]
fn compilers() {
    assert_same(
        "compilers",
        r#"
        cat > work.cc <<'END'
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <thread>
#include <vector>
int main() {
    std::map<std::string, std::vector<std::shared_ptr<std::string>>> words;
    std::regex word("[a-z]+([0-9])");
    for (int i = 0; i < 5000; i++) {
        std::smatch match; std::string text = "word" + std::to_string(i);
        if (std::regex_search(text, match, word)) words[match[1]].push_back(std::make_shared<std::string>(text));
    }
    std::vector<std::thread> threads; std::vector<long> sums(8);
    for (int t = 0; t < 8; t++) threads.emplace_back([&, t] {
        for (int i = 0; i < 20000; i++) { std::vector<int> v(i % 500 + 1, t); sums[t] += v.back(); } });
    for (auto &t : threads) t.join();
    for (auto &[key, list] : words) std::cout << key << ' ' << list.size() << '\n';
    std::cout << std::accumulate(sums.begin(), sums.end(), 0L) << '\n';
    try { std::vector<char> all(1UL << 62); } catch (const std::bad_alloc &) { std::cout << "no memory\n"; }
}
END
        cat > work.c <<'END'
#include <stdio.h>
#include <stdlib.h>
int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
int main(void) {
    enum { N = 100000 }; int *v = malloc(N * sizeof *v); unsigned x = 1;
    for (int i = 0; i < N; i++) v[i] = (x = x * 1103515245 + 12345) >> 8;
    qsort(v, N, sizeof *v, compare); printf("%d %d\n", v[0], v[N / 2]); free(v);
}
END
        gcc -O2 -c work.c -o work.o && cksum work.o && gcc work.o -o work && ./work
        g++ -O1 -std=c++17 -include numeric -pthread work.cc -o workcc && ./workcc
        "#,
    );
}

#[test]
fn redis() {
    assert_same(
        "redis",
        r#"
        redis-server --port 0 --unixsocket "$PWD/s" --save '' --appendonly no --dir "$PWD" > log 2>&1 &
        until redis-cli -s s ping 2> /dev/null | grep -q PONG; do sleep 0.1; done
        redis-benchmark -s s -q -n 20000 -c 20 -P 16 -r 5000 -d 100 -t set,get,lpush,rpop,sadd,hset,zadd > bench 2>&1 || echo failed
        tr '\r' '\n' < bench | grep -c 'requests per second, p50'
        redis-cli -s s flushall
        seq 1 3000 | awk '{ print "set key:" $1, $1 * $1; print "hset hash f" $1, $1; print "zadd sorted", $1 % 97, "m" $1 }' | redis-cli -s s | sort | uniq -c
        redis-cli -s s dbsize; redis-cli -s s get key:1234; redis-cli -s s zrange sorted 0 5; redis-cli -s s hlen hash
        redis-cli -s s eval 'local s = 0; for i = 1, 3000 do s = s + redis.call("get", "key:" .. i) end; return s' 0
        redis-cli -s s save; redis-cli -s s debug reload; redis-cli -s s dbsize
        redis-cli -s s shutdown nosave; wait
        "#,
    );
}

/// The one program that is not expected everywhere.
#[test]
fn node() {
    assert_same_if_installed(
        "node",
        "node",
        r#"cat > work.js <<'END'
const { Worker, isMainThread, parentPort } = require('worker_threads');
const crypto = require('crypto'), zlib = require('zlib');
const sum = n => { let s = 0; for (let i = 0; i < n; i++) s += JSON.parse(JSON.stringify({ a: [i, 'x'.repeat(i % 100)] })).a[0]; return s; };
if (!isMainThread) { parentPort.postMessage(sum(20000)); return; }
const text = JSON.stringify(Array.from({ length: 20000 }, (_, i) => ({ i, name: 'n' + i * 7919 % 1000, list: [i, i + 1] })));
console.log(text.length, crypto.createHash('sha256').update(text).digest('hex'));
console.log(zlib.inflateSync(zlib.deflateSync(text)).length, text.match(/"n\d+7"/g).length);
const buffers = []; for (let i = 0; i < 2000; i++) { buffers.push(Buffer.alloc(i * 37, i)); if (buffers.length > 50) buffers.shift(); }
Promise.all([1, 2, 3].map(() => new Promise(done => new Worker(__filename).on('message', done)))).then(all => console.log(all));
END
        node work.js
        "#,
    );
}
