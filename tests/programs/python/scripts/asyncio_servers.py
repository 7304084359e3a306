# SPDX-License-Identifier: BSD-3-Clause
#
# asyncio: a server and its clients, a subprocess, threads, a time limit.
import asyncio


async def serve(reader, writer):
    writer.write(await reader.readline())
    await writer.drain()
    writer.close()


async def ask(port, i):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"%d\n" % i)
    answer = await reader.readline()
    writer.close()
    return answer


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(await asyncio.gather(*(ask(port, i) for i in range(5))))
    server.close()
    child = await asyncio.create_subprocess_exec("echo", "sub", stdout=asyncio.subprocess.PIPE)
    print((await child.communicate())[0], await asyncio.to_thread(sum, [1, 2]))
    try:
        await asyncio.wait_for(asyncio.sleep(1000), 0.05)
    except asyncio.TimeoutError:
        print("time limit")


asyncio.run(main())
