// What both ends' pages share. Times are milliseconds of performance.now().
"use strict";

let pc = null;

function makeConnection() {
  pc = new RTCPeerConnection({ iceServers: [], bundlePolicy: "max-bundle" });
  return pc;
}

/** The local description, once every address is in it. */
async function gathered() {
  if (pc.iceGatheringState !== "complete") {
    await new Promise((resolve) =>
      pc.addEventListener("icegatheringstatechange", () => {
        if (pc.iceGatheringState === "complete") resolve();
      }),
    );
  }
  return pc.localDescription.sdp;
}

/** Resolves when packets can flow; rejects when no path is found. */
function connected() {
  return new Promise((resolve, reject) => {
    const look = () => {
      if (pc.connectionState === "connected") resolve(true);
      if (pc.connectionState === "failed") reject(new Error("ICE found no path to the other end"));
    };
    pc.addEventListener("connectionstatechange", look);
    look();
  });
}

const REPORTED = new Set(["inbound-rtp", "outbound-rtp", "remote-inbound-rtp", "codec", "candidate-pair"]);

async function stats() {
  const rows = [];
  (await pc.getStats()).forEach((row) => {
    if (REPORTED.has(row.type) && (row.type !== "candidate-pair" || row.nominated)) rows.push({ ...row });
  });
  return rows;
}

const turn = new MessageChannel();

/** Waits until `moment`. `setTimeout` waits 4 ms at least when it is used again and again, and
 *  `postTask` whole milliseconds: the rest of one is spent in turns of the event loop. */
async function until(moment) {
  const whole = Math.floor(moment - performance.now());
  if (whole > 0) await scheduler.postTask(() => {}, { delay: whole, priority: "user-blocking" });
  while (moment - performance.now() > 0) {
    await new Promise((resolve) => {
      turn.port1.addEventListener("message", resolve, { once: true });
      turn.port2.postMessage(0);
    });
  }
}
turn.port1.start();
